"""`syncline`, and `python -m syncline`."""

from __future__ import annotations

import sys

from syncline import interrupts


def main() -> None:
    """Runs the command line and ends the process. No exception reaches the terminal as a traceback."""
    interrupts.leave_at_once()
    try:
        from syncline import cli

        cli.main()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # panics of the engine are no Exceptions
        from syncline import last_resort

        last_resort.leave(error, sys.argv[1:])


if __name__ == "__main__":
    main()
