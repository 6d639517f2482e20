"""`python -m syncline`."""

from __future__ import annotations

from syncline.cli import main

if __name__ == "__main__":
    main()
