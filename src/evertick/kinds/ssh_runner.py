"""Runs OpenSSH for one step: `python -I -S ssh_runner.py`, with the request on descriptor 3.

It sends the remote shell its text and heartbeats, takes the marks of that shell out of standard error, and so tells the
end of the command from a failed or lost connection. The text, which may hold secrets, is sent only when the remote
shell says that it is ready: a host or a key that runs something else gets nothing. It imports nothing else of the
package, so that it starts fast.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import stat
import subprocess
import sys
import time

PAYLOAD_FD = 3
RESULT_FD = 4
NOT_CONNECTED = 255
"""The exit code of OpenSSH for a failure of its own."""
NOT_FOUND = 127
ENDED = 143
STREAMS_SECONDS = 2.0
"""How long output is read after the command has ended: a process that it left behind may hold the streams open."""
LAST_WORDS = 2_000
_STOPS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
_KEPT = ("HOME", "PATH", "LANG", "USER", "LOGNAME", "SHELL", "TMPDIR")


class End:
    """The exit code of this process, and its exit note."""

    def __init__(self, code: int, reason: str = "", is_lost: bool = False) -> None:
        self.code = code
        self.reason = reason
        self.is_lost = is_lost


class MarkFilter:
    """Standard error without the marks of the remote shell, which say that it is ready and how its command ended."""

    def __init__(self, mark: str) -> None:
        self._mark = mark.encode()
        self._held = b""
        self.is_ready = False
        self.exit_code: int | None = None
        self.tail = b""
        """The last that was printed before that: what OpenSSH says about a failure."""

    def feed(self, data: bytes) -> bytes:
        """The part of the stream that is output by now."""
        self._held += data
        out = b""
        while (at := self._held.find(self._mark)) >= 0 and (stop := self._held.find(b"\n", at)) >= 0:
            out += self._held[:at]
            self._read(self._held[at + len(self._mark) : stop].split())
            self._held = self._held[stop + 1 :]
        # Keep back what may be the beginning of a mark.
        keep = len(self._held) - at if at >= 0 else self._partial()
        cut = len(self._held) - keep
        out, self._held = out + self._held[:cut], self._held[cut:]
        return self._seen(out)

    def finish(self) -> bytes:
        rest, self._held = self._held, b""
        return self._seen(rest)

    def _partial(self) -> int:
        longest = min(len(self._mark) - 1, len(self._held))
        return next((size for size in range(longest, 0, -1) if self._mark.startswith(self._held[-size:])), 0)

    def _read(self, words: list[bytes]) -> None:
        if words == [b"ready"]:
            self.is_ready = True
        elif len(words) == 2 and words[0] == b"end" and words[1].isdigit():
            self.exit_code = int(words[1])

    def _seen(self, out: bytes) -> bytes:
        if not self.is_ready:
            self.tail = (self.tail + out)[-LAST_WORDS:]
        return out


class Session:
    """One run of OpenSSH."""

    def __init__(
        self, argv: list[str], target: str, text: str, mark: str, *, heartbeat: float, silence: float, wake: int
    ) -> None:
        self._argv = argv
        self._target = target
        self._text = text.encode("utf-8", "surrogateescape") + b"\n"
        self._heartbeat = heartbeat
        self._silence = silence
        self._marks = MarkFilter(mark)
        self._wake = wake
        self._is_stopped = False

    def run(self) -> End:
        program = shutil.which(self._argv[0])
        if program is None:
            return End(NOT_FOUND, f"the program {self._argv[0]!r} was not found in PATH. Install the OpenSSH client.")
        kept = {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith("EVERTICK_")}
        # Signals are blocked here: OpenSSH inherits that, so that a stop leaves it time to pass on the last output.
        process = subprocess.Popen(
            self._argv, executable=program, env=kept, stdin=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
        )
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
        self._attend(process)
        code = process.wait()
        _print(self._marks.finish())
        return self._judge(code)

    def _attend(self, process: subprocess.Popen[bytes]) -> None:
        """Until OpenSSH has closed its standard error."""
        assert process.stdin is not None
        assert process.stderr is not None
        stdin, stderr = process.stdin, process.stderr
        os.set_blocking(stdin.fileno(), False)
        pending, is_sent = b"", False
        beat_at, leave_at = time.monotonic() + self._heartbeat, None
        with selectors.DefaultSelector() as selector:
            selector.register(stderr, selectors.EVENT_READ)
            selector.register(self._wake, selectors.EVENT_READ)
            while True:
                wait = beat_at - time.monotonic() if leave_at is None else leave_at - time.monotonic()
                for key, _ in selector.select(max(0.0, wait)):
                    if key.fileobj is stderr:
                        data = os.read(stderr.fileno(), 65_536)
                        if not data:
                            return
                        _print(self._marks.feed(data))
                    elif key.fileobj is self._wake:
                        os.read(self._wake, 4_096)
                        self._is_stopped = True
                    elif pending:
                        pending = pending[_write(stdin.fileno(), pending) :]
                        if not pending:
                            selector.unregister(stdin)
                if self._marks.is_ready and not is_sent and not self._is_stopped:
                    pending, is_sent = self._text, True
                    selector.register(stdin, selectors.EVENT_WRITE)
                if self._is_stopped and not stdin.closed:
                    if pending:
                        selector.unregister(stdin)
                    stdin.close()  # the remote side ends the command
                    if not is_sent:
                        process.kill()
                now = time.monotonic()
                if self._marks.exit_code is not None and not self._is_stopped and leave_at is None:
                    leave_at = now + STREAMS_SECONDS
                if leave_at is not None and now >= leave_at:
                    process.kill()
                    return
                if now >= beat_at:
                    beat_at = now + self._heartbeat
                    if not stdin.closed and is_sent and not pending:
                        _write(stdin.fileno(), b"\n")

    def _judge(self, code: int) -> End:
        marks = self._marks
        if marks.exit_code is not None:
            return End(marks.exit_code)
        if self._is_stopped:
            return End(ENDED)
        if not marks.is_ready and code == NOT_CONNECTED:
            said = marks.tail.decode("utf-8", "replace").strip().splitlines()
            why = said[-1].strip() if said else "OpenSSH gave no reason"
            return End(NOT_CONNECTED, f"{self._target} cannot be reached: {why}")
        if not marks.is_ready:
            return End(
                NOT_CONNECTED,
                f"{self._target} did not start the command: its session ended with exit code {code}. "
                "The account needs /bin/sh, and a key without a forced command.",
            )
        _note(f"the connection is lost; waiting {self._silence:.0f}s until the command has ended there")
        self._wait_for_end()
        return End(
            NOT_CONNECTED, f"the connection to {self._target} was lost, and how the command ended is unknown", True
        )

    def _wait_for_end(self) -> None:
        """A retry must not run beside a command that does not know yet that its connection is lost."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake, selectors.EVENT_READ)
            selector.select(self._silence)


def main() -> int:
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
    with open(PAYLOAD_FD, "rb") as file:
        request = json.loads(file.read())
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    for number in _STOPS:
        signal.signal(number, lambda *_: None)
    words = (request["argv"], request["target"], request["text"], request["mark"])
    end = Session(*words, heartbeat=request["heartbeat"], silence=request["silence"], wake=reader).run()
    if end.reason:
        _note(end.reason)
    with contextlib.suppress(OSError), open(RESULT_FD, "wb") as note:
        # A keeper that was started before an upgrade has a pipe here, and expects no exit code.
        code = () if stat.S_ISFIFO(os.fstat(RESULT_FD).st_mode) else (end.code,)
        note.write(json.dumps([end.reason[:2_000], end.is_lost, *code]).encode())
    return end.code


def _write(fd: int, data: bytes) -> int:
    """How much was written; an OpenSSH that is gone is noticed elsewhere."""
    try:
        return os.write(fd, data)
    except BlockingIOError:
        return 0
    except BrokenPipeError:
        return len(data)


def _print(data: bytes) -> None:
    # Without a keeper that reads it, it is dropped, and the command goes on.
    with contextlib.suppress(BrokenPipeError):
        sys.stderr.buffer.write(data)
        sys.stderr.buffer.flush()


def _note(text: str) -> None:
    _print(f"[evertick: {text}]\n".encode("utf-8", "replace"))


if __name__ == "__main__":
    sys.exit(main())
