"""Ctrl-C, and SIGTERM as batch systems send it: one line and exit status 130, whatever the process is at.

As long as Python runs, an interrupt is a `KeyboardInterrupt`, so that commands can write what is finished. It may also
find the main thread in native code that does not look at signals (the engine makes a large topology, say), in code
whose exceptions nobody hears, or before or after all commands; then the process ends at once.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Final, NoReturn

STATUS: Final = 130
PATIENCE_S: Final = 3.0
"""How long the main thread may take to hear of an interrupt."""

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
"""Ctrl-C, and what batch systems send some time before they end a job."""

_heard = threading.Event()
_happened = threading.Event()
_is_command = threading.Event()
"""Set once the command line listens."""


def happened() -> bool:
    """Whether there was an interrupt. Libraries wrap the exception into others of their own, so that what comes out of
    a command may look like something else.
    """
    return _happened.is_set()


def leave(*_: object) -> NoReturn:
    """Ends the process at once."""
    with suppress(OSError):
        os.write(2, b"interrupted\n")
    os._exit(STATUS)


def leave_at_once() -> None:
    """From now on an interrupt ends the process at once: there is nothing left that could be lost."""
    if threading.current_thread() is threading.main_thread():
        for number in _wanted():
            signal.signal(number, leave)


def listen() -> None:
    """Interrupts become exceptions of the main thread, or end the process where it does not hear them."""
    _is_command.set()
    wanted = _wanted()
    if not wanted:
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    for number in wanted:
        signal.signal(number, _interrupt)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(reading,), daemon=True).start()
    sys.unraisablehook = _unraisable


@contextmanager
def held_back() -> Iterator[None]:
    """An interrupt has its effect after what is done here. Threads other than the main one never hear of any."""
    wanted = _wanted() if threading.current_thread() is threading.main_thread() else []
    if not wanted:
        yield
        return
    held: list[int] = []

    def hold(number: int, _: FrameType | None) -> None:
        _heard.set()
        _happened.set()
        held.append(number)

    before = {number: signal.signal(number, hold) for number in wanted}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if held:
        raise KeyboardInterrupt


def _wanted() -> list[signal.Signals]:
    """The signals that end this, but for those that whoever started it does not want it to hear of, as a shell does in
    the background. Of a program that calls functions of Syncline, SIGTERM is its own matter.
    """
    signals = [signal.SIGINT, *([signal.SIGTERM] if _is_command.is_set() else [])]
    return [number for number in signals if signal.getsignal(number) is not signal.SIG_IGN]


def _interrupt(*_: object) -> NoReturn:
    _heard.set()
    _happened.set()
    raise KeyboardInterrupt


def _watch(signals: int) -> None:
    """Ends the process if an interrupt is not heard."""
    while number := os.read(signals, 1):
        if number[0] in SIGNALS:
            if not _heard.wait(PATIENCE_S):
                leave()
            _heard.clear()


def _unraisable(what: Any) -> None:
    if issubclass(what.exc_type, KeyboardInterrupt):
        leave()
    sys.__unraisablehook__(what)
