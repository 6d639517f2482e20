"""Builds a source distribution and wheels into a folder: `python release/wheels.py dist`.

Everything is built from the unpacked source distribution, so that a wheel has nothing of a checkout that users of the
sources do not get. Zig links against the libraries of an old glibc, whichever this computer has. Wheels for Linux have
the collective library (`libsyncline_nccl.so`), too.

The wheel for this computer is what is tested (`python -m tests.distribution dist`). Others are built if Rust has their
target (`rustup target add TARGET`), and nobody has run them.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
GLIBC: Final = "2.17"
"""The oldest that the standard library of Rust supports. The engine needs 2.14, the collective library 2.17."""
LIBRARY: Final = "libsyncline_nccl.so"


@dataclass(frozen=True, slots=True)
class Target:
    """What a wheel is built for."""

    triple: str
    """Rust's name of it."""
    compatibility: str | None
    """The tag of its platform; maturin's own where there is only one."""
    glibc: str = ""
    """What is appended to the triple for Zig."""
    has_library: bool = False
    """Whether the wheel has the collective library."""


TARGETS: Final = (
    Target("x86_64-unknown-linux-gnu", "manylinux2014", f".{GLIBC}", has_library=True),
    Target("aarch64-unknown-linux-gnu", "manylinux2014", f".{GLIBC}", has_library=True),
    Target("x86_64-unknown-linux-musl", "musllinux_1_2"),
    Target("aarch64-unknown-linux-musl", "musllinux_1_2"),
    Target("x86_64-apple-darwin", None),
    Target("aarch64-apple-darwin", None),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Builds what is asked for, and says what came of it. The exit status is 1 if something could not be built."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where the files are put")
    parser.add_argument(
        "--only", action="append", metavar="TARGET", help="build for this target of Rust; may be repeated"
    )
    given = parser.parse_args(arguments)
    folder = given.folder.resolve()
    known = {target.triple: target for target in TARGETS}
    if unknown := [triple for triple in given.only or () if triple not in known]:
        parser.error(f"--only: {', '.join(unknown)}: not known; accepted: {', '.join(known)}")
    missing = [tool for tool in ("maturin", "cargo-zigbuild", "cargo", "rustup") if shutil.which(tool) is None]
    if missing:
        parser.error(f"{', '.join(missing)}: not on the PATH; `make wheels` installs what is not Rust's")
    folder.mkdir(parents=True, exist_ok=True)
    for older in (*folder.glob("syncline-*.whl"), *folder.glob("syncline-*.tar.gz")):
        older.unlink()  # the folder has what was built of the same sources
    sources, source_distribution = unpacked(folder)
    installed = output("rustup", "target", "list", "--installed").split()
    rows = [(source_distribution.name, "")]
    failed = False
    for target in TARGETS:
        if given.only and target.triple not in given.only:
            continue
        began = time.monotonic()
        if target.triple not in installed:
            rows.append((target.triple, f"not built: rustup target add {target.triple}"))
            failed |= bool(given.only)
            continue
        try:
            wheel = built(sources, target, folder)
        except subprocess.CalledProcessError as error:
            rows.append((target.triple, f"could not be built: {error.cmd[0]} ended with {error.returncode}"))
            failed = True
            continue
        tested = "for this computer" if is_native(target) else "UNTESTED: built, and never run"
        rows.append((wheel.name, f"{wheel.stat().st_size / 1e6:.1f} MB, {time.monotonic() - began:.0f} s; {tested}"))
    for name, said in rows:
        print(f"{name}  {said}".rstrip())
    print(f"check what is for this computer: python -m tests.distribution {given.folder}")
    return int(failed)


def unpacked(folder: Path) -> tuple[Path, Path]:
    """The source distribution, built into `folder`, and where it was unpacked."""
    run("maturin", "sdist", "--out", str(folder), cwd=ROOT)
    (archive,) = folder.glob("syncline-*.tar.gz")
    place = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").resolve() / "wheels"
    sources = place / archive.name.removesuffix(".tar.gz")
    shutil.rmtree(sources, ignore_errors=True)
    with tarfile.open(archive) as opened:
        opened.extractall(place, filter="data")
    return sources, archive


def built(sources: Path, target: Target, folder: Path) -> Path:
    """The wheel for a target. Raises [`subprocess.CalledProcessError`]."""
    environment = {
        **os.environ,
        "CARGO_TARGET_DIR": str(sources.parent / "target"),
        "RUSTFLAGS": " ".join([os.environ.get("RUSTFLAGS", ""), *without_paths(sources)]).strip(),
        "SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH", "946684800"),  # that of no file is told
    }
    library = sources / "python" / "syncline" / LIBRARY
    library.unlink(missing_ok=True)
    if target.has_library:
        triple = target.triple + target.glibc
        stripped = environment | {"CARGO_PROFILE_RELEASE_STRIP": "symbols"}
        cargo = ("cargo-zigbuild", "build", "--release", "--locked")
        run(*cargo, "-p", "syncline-nccl", "--target", triple, cwd=sources, environment=stripped)
        shutil.copy(sources.parent / "target" / target.triple / "release" / LIBRARY, library)
    line = ("maturin", "build", "--release", "--locked", "--zig", "--target", target.triple, "--out", str(folder))
    tag = () if target.compatibility is None else ("--compatibility", target.compatibility)
    before = set(folder.glob("syncline-*.whl"))
    run(*line, *tag, cwd=sources, environment=environment)
    (made,) = set(folder.glob("syncline-*.whl")) - before
    return made


def without_paths(sources: Path) -> list[str]:
    """Flags with which messages of the engine name files without the folders of this computer."""
    cargo = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo").resolve()
    return [f"--remap-path-prefix={cargo}=cargo", f"--remap-path-prefix={sources}=syncline"]


def is_native(target: Target) -> bool:
    """Whether the wheel can be tested on this computer."""
    return target.glibc != "" and platform.system() == "Linux" and target.triple.startswith(platform.machine())


def run(*line: str, cwd: Path, environment: dict[str, str] | None = None) -> None:
    """Runs a program, which is said on standard error. Raises [`subprocess.CalledProcessError`]."""
    print("$ " + " ".join(line), file=sys.stderr)
    subprocess.run(line, cwd=cwd, env=environment, check=True)


def output(*line: str) -> str:
    """What a program prints."""
    return subprocess.run(line, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    sys.exit(main())
