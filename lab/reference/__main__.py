"""`python -m lab.reference FOLDER` writes the pages into the folder of the documentation."""

from __future__ import annotations

import sys
from pathlib import Path

from lab.reference import pages


def main() -> None:
    """Writes all pages."""
    for path, text in pages().items():
        (Path(sys.argv[1]) / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
