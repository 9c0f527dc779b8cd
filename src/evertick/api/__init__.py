"""The operations over HTTP: routes that parse, call one operation and respond, behind authentication."""
