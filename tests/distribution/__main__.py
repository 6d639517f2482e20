"""`python -m tests.distribution FOLDER`: checks what `make wheels` has built."""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from packaging.utils import parse_sdist_filename, parse_wheel_filename

from . import archives
from .installed import Installation, tried

UNOPTIMISED = {
    "CARGO_PROFILE_RELEASE_OPT_LEVEL": "0",
    "CARGO_PROFILE_RELEASE_LTO": "off",
    "CARGO_PROFILE_RELEASE_DEBUG": "0",
    "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "256",
}
"""Whether the sources can be built does not depend on how well the engine is optimised, which takes minutes."""


def main() -> int:
    """Prints a line for each file; the exit status is 1 if something is wrong with any."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.distribution", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--no-sources", action="store_true", help="do not build and try the source distribution")
    given = parser.parse_args()
    files = sorted([*given.folder.resolve().glob("*.whl"), *given.folder.resolve().glob("*.tar.gz")])
    if not files:
        parser.error(f"{given.folder}: there are no wheels and no source distributions here")
    failed = False
    for file in files:
        began = time.monotonic()
        try:
            said = list(checked(file, build=not given.no_sources))
        except AssertionError as error:
            failed = True
            print(f"{file.name}: {error}", file=sys.stderr)
            continue
        print(f"{file.name}: {'; '.join(said)} ({time.monotonic() - began:.0f} s)")
    return int(failed)


def checked(file: Path, *, build: bool) -> Iterator[str]:
    """Says what of a file is right. Raises [`AssertionError`] with what is wrong."""
    is_sources = file.suffix == ".gz"
    check = archives.source_distribution if is_sources else archives.wheel
    problems = list(check(file, archives.places()))
    assert not problems, "\n  ".join(problems)
    yield "content and metadata are right"
    if is_sources and not build:
        return
    if not is_sources and not is_native(file):
        yield "NOT TESTED: it is for another system"
        return
    with tempfile.TemporaryDirectory() as folder:
        installation = Installation(Path(folder))
        installation.install(file, UNOPTIMISED if is_sources else None)
        version = (parse_sdist_filename(file.name) if is_sources else parse_wheel_filename(file.name))[1]
        tried(installation, str(version), with_library=not is_sources)
    yield "built, installed and tried" if is_sources else "installed and tried"


def is_native(wheel: Path) -> bool:
    """Whether a wheel can be tried on this computer."""
    tags = parse_wheel_filename(wheel.name)[3]
    wanted = f"_{platform.machine()}"
    return any(tag.platform.startswith("manylinux") and tag.platform.endswith(wanted) for tag in tags)


if __name__ == "__main__":
    sys.exit(main())
