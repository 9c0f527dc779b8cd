"""What a crash between any two writes leaves behind: on every store, at every call, before it and after it."""
