"""`syncline`, and `python -m syncline`."""

from __future__ import annotations

from syncline import interrupts


def main() -> None:
    """Runs the command line and ends the process."""
    interrupts.leave_at_once()
    from syncline import cli

    cli.main()


if __name__ == "__main__":
    main()
