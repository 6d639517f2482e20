"""`syncline`, and `python -m syncline`."""

from __future__ import annotations

import sys
import threading

from syncline.base import interrupts


def main() -> None:
    """Runs the command line and ends the process. No exception reaches the terminal as a traceback."""
    interrupts.leave_at_once()
    threading.excepthook = _of_a_thread
    try:
        from syncline.commands import cli

        cli.main()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # panics of the engine are no Exceptions
        from syncline.base import last_resort

        last_resort.leave(error, sys.argv[1:])


def _of_a_thread(raised: threading.ExceptHookArgs) -> None:
    """Reports what a thread raises, which ends with it; the command goes on."""
    from syncline.base import last_resort

    if raised.exc_value is not None and raised.exc_type is not SystemExit:
        last_resort.report(raised.exc_value, sys.argv[1:])


if __name__ == "__main__":
    main()
