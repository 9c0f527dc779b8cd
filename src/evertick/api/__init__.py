"""The desk over HTTP: routes that parse, ask the desk once, and answer; and the guard in front of all of them."""
