"""`syncline`, and `python -m syncline`."""

from __future__ import annotations

import sys
import threading

from syncline.base import interrupts

interrupts.leave_at_once()  # before anything is imported that takes a while

from syncline.base import last_resort  # noqa: E402
from syncline.commands import cli  # noqa: E402


def main() -> None:
    """Runs the command line and ends the process. No exception reaches the terminal as a traceback."""
    threading.excepthook = _of_a_thread
    try:
        cli.main()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # panics of the engine are no Exceptions
        last_resort.leave(error, sys.argv[1:])


def _of_a_thread(raised: threading.ExceptHookArgs) -> None:
    """Reports what a thread raises, which ends with it; the command goes on."""
    if raised.exc_value is not None and raised.exc_type is not SystemExit:
        last_resort.report(raised.exc_value, sys.argv[1:])


if __name__ == "__main__":
    main()
