#!/bin/sh
echo "$GREETING"
