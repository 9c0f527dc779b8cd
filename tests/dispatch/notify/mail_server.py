"""A mail server on this machine: as much of SMTP as a client needs."""

from __future__ import annotations

import socketserver
import ssl
import threading
from typing import Any


class MailServer:
    def __init__(self, context: ssl.SSLContext | None = None, *, answers: dict[str, str] | None = None) -> None:
        """`answers` replaces what a command is answered with: `{"RCPT": "550 no"}`. With a context it offers TLS."""
        self.mails: list[str] = []
        self.commands: list[str] = []
        office = self

        class Session(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                self._say("220 here")
                while line := self.rfile.readline().decode().strip():
                    verb = line.partition(" ")[0].upper()
                    office.commands.append(line)
                    if answers and verb in answers:
                        self._say(answers[verb])
                    elif verb == "EHLO":
                        self._say("250-here\r\n250-AUTH PLAIN\r\n250 STARTTLS" if context else "250 here")
                    elif verb == "STARTTLS" and context:
                        self._say("220 go on")
                        self.connection: Any = context.wrap_socket(self.request, server_side=True)
                        unbuffered: Any = self.connection.makefile("wb", 0)
                        self.rfile, self.wfile = self.connection.makefile("rb"), unbuffered
                    elif verb == "AUTH":
                        self._say("235 ok")
                    elif verb == "DATA":
                        self._say("354 go on")
                        lines = []
                        while (data := self.rfile.readline().decode().rstrip("\r\n")) != ".":
                            lines.append(data)
                        office.mails.append("\n".join(lines))
                        self._say("250 taken")
                    else:
                        self._say("221 bye" if verb == "QUIT" else "250 ok")
                        if verb == "QUIT":
                            return

            def finish(self) -> None:
                super().finish()
                # After STARTTLS it is another object than the one that the server closes.
                self.connection.close()

            def _say(self, text: str) -> None:
                self.wfile.write(f"{text}\r\n".encode())

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Session)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]

    def __enter__(self) -> MailServer:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
