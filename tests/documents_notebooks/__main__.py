"""`python -m tests.documents_notebooks [--update] [NAME...]`: executes notebooks, and with `--update` stores them."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from .notebooks import all_notebooks, differences, executed


def main() -> int:
    """0 if every notebook is as it is stored, or was stored anew."""
    parser = argparse.ArgumentParser(prog="python -m tests.documents_notebooks", description=__doc__)
    parser.add_argument("--update", action="store_true", help="store what was executed")
    parser.add_argument("names", nargs="*", help="notebooks, such as dgx_cluster; all by default")
    given = parser.parse_args()
    known = {path.stem: path for path in all_notebooks()}
    unknown = [name for name in given.names if name not in known]
    if unknown:
        parser.error(f"no notebook is called {unknown[0]}; there are {', '.join(known)}")
    wrong = False
    for path in [known[name] for name in given.names or known]:
        kept = path.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            found = executed(kept, Path(folder))
        changed = differences(kept, found)
        print(f"{path.stem}: {'as stored' if kept == found else 'other text' if changed else 'other form'}")
        if given.update:
            path.write_text(found, encoding="utf-8")
        elif changed:
            print("\n".join(changed))
            wrong = True
    return int(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
