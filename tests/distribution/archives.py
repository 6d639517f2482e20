"""What is in a wheel and in a source distribution, and what must not be in them. Every check returns problems."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import re
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final

from markdown_it import MarkdownIt
from packaging.metadata import Metadata
from packaging.utils import parse_wheel_filename

from . import elf

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGE: Final = ROOT / "python" / "syncline"
ENGINE: Final = "syncline/core/_core.abi3.so"
LIBRARY: Final = "syncline/libsyncline_nccl.so"
MANYLINUX: Final = {"manylinux2014": (2, 17), "manylinux_2_28": (2, 28)}
"""The oldest glibc of tags (PEP 599 and 600)."""
ALWAYS_THERE: Final = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libgcc_s.so.1"}
"""Of the libraries that these tags permit, those that are used, beside the loader."""
PRIVATE: Final = {
    "_Py_IncRef",
    "_Py_DecRef",
    "_Py_Dealloc",
    "_Py_NoneStruct",
    "_Py_TrueStruct",
    "_Py_FalseStruct",
    "_Py_NotImplementedStruct",
}
"""Names with an underscore that belong to the stable ABI all the same (behind its macros)."""
SMALLEST: Final = 400_000
"""An engine is larger than so many bytes; a wheel is not larger than `LARGEST`."""
LARGEST: Final = 30_000_000


def places() -> list[bytes]:
    """The folders of this computer that nothing may name which is given to others."""
    cargo = os.environ.get("CARGO_HOME") or str(Path.home() / ".cargo")
    return [str(place).encode() for place in (ROOT, cargo, Path.home() / ".rustup", Path(tempfile.gettempdir()) / "t-")]


def package_files() -> set[str]:
    """The files of the package that everybody gets, as paths below `python`."""
    found = (path for path in PACKAGE.rglob("*") if path.is_file())
    return {
        path.relative_to(PACKAGE.parent).as_posix()
        for path in found
        if "__pycache__" not in path.parts and path.suffix not in (".so", ".pyc")
    }


def wheel(path: Path, places: Collection[bytes]) -> Iterator[str]:
    """Problems of a wheel. `places` are folders of the computer that built it, which no file may name."""
    _, version, _, tags = parse_wheel_filename(path.name)
    platforms = {tag.platform for tag in tags}
    if {(tag.interpreter, tag.abi) for tag in tags} != {("cp311", "abi3")}:
        yield f"{path.name}: the tag is not cp311-abi3"
    with zipfile.ZipFile(path) as archive:
        content = {info.filename: archive.read(info) for info in archive.infolist() if not info.is_dir()}
    about = f"syncline-{version}.dist-info"
    yield from _record(content, about)
    yield from metadata(content[f"{about}/METADATA"], str(version))
    if content[f"{about}/licenses/LICENSE"] != (ROOT / "LICENSE").read_bytes():
        yield "the licence is not that of the project"
    mine = {name for name in content if not name.startswith(about)}
    allowed = package_files() | {ENGINE, LIBRARY}
    yield from (f"{name}: this does not belong into a wheel" for name in sorted(mine - allowed))
    yield from (f"{name}: this is missing from the wheel" for name in sorted((package_files() | {ENGINE}) - mine))
    yield from named_places(content, places)
    if not len(content[ENGINE]) > SMALLEST or path.stat().st_size > LARGEST:
        yield f"{path.name}: the size is not that of a stripped engine"
    for name in (ENGINE, LIBRARY):
        if name in content and content[name].startswith(elf.MAGIC):
            yield from (f"{name}: {problem}" for problem in library(content[name], platforms))
    if any(platform.startswith("manylinux") for platform in platforms) and LIBRARY not in content:
        yield f"{LIBRARY}: this is missing from the wheel"


def library(data: bytes, platforms: Collection[str]) -> Iterator[str]:
    """Problems of a shared library of a wheel for these platforms."""
    found = elf.read(data)
    yield from (
        f"it is for {found.machine}, and the wheel for {platform}"
        for platform in platforms
        if not platform.endswith(found.machine)
    )
    private = {name for name in found.imported if name.startswith("_Py")} - PRIVATE
    yield from (f"{name} is no part of the stable ABI" for name in sorted(private))
    if any("musl" in platform for platform in platforms):
        yield from (f"it needs {name}" for name in found.versions)
        return
    foreign = {name for name in found.needed if name not in ALWAYS_THERE and not name.startswith("ld-linux")}
    yield from (f"it needs {name}, which not every system has" for name in sorted(foreign))
    oldest = min((glibc for tag, glibc in MANYLINUX.items() for p in platforms if p.startswith(tag)), default=None)
    if oldest is not None and found.glibc > oldest:
        yield f"it needs glibc {'.'.join(map(str, found.glibc))}, and the wheel promises {'.'.join(map(str, oldest))}"


def metadata(text: bytes, version: str) -> Iterator[str]:
    """Problems of the metadata, which have to say what pyproject.toml says."""
    found = Metadata.from_email(text, validate=True)
    project = project_table()
    expected = {
        "name": "syncline",
        "summary": project["description"],
        "license_expression": project["license"],
        "license_files": project["license-files"],
        "keywords": project["keywords"],
        "classifiers": project["classifiers"],
        "description_content_type": "text/markdown; charset=UTF-8; variant=GFM",
    }
    for key, value in expected.items():
        given = getattr(found, key)
        if (sorted(given) if isinstance(given, list) else given) != (
            sorted(value) if isinstance(value, list) else value
        ):
            yield f"{key}: {given!r} instead of {value!r}"
    if str(found.version) != version:
        yield f"version: {found.version} instead of {version}"
    if str(found.requires_python) != project["requires-python"]:
        yield f"requires_python: {found.requires_python}"
    extras = project["optional-dependencies"]
    if sorted(found.provides_extra or ()) != sorted(extras):
        yield f"provides_extra: {found.provides_extra}"
    needed = [str(requirement).replace(" ", "") for requirement in found.requires_dist or ()]
    given = [word.replace(" ", "") for word in project["dependencies"]]
    given += [f'{word.replace(" ", "")};extra=="{name}"' for name, words in extras.items() for word in words]
    if {_sorted(word) for word in needed} != {_sorted(word) for word in given}:
        yield f"requires_dist: {sorted(needed)} instead of {sorted(given)}"
    html = MarkdownIt("gfm-like", {"linkify": False}).render(found.description or "")
    if not html.startswith("<h1>Syncline</h1>") or "<table>" not in html or "<pre>" not in html:
        yield "the description is not that of README.md, or cannot be rendered"


def _sorted(requirement: str) -> str:
    """A requirement whose limits are in the order of letters."""
    head, semicolon, marker = requirement.partition(";")
    name = re.match(r"[\w.-]+", head)
    assert name is not None
    limits = sorted(head.removeprefix(name[0]).split(","))
    return f"{name[0]}{','.join(limits)}{semicolon}{marker.replace(chr(39), chr(34))}"


def source_distribution(path: Path, places: Collection[bytes]) -> Iterator[str]:
    """Problems of a source distribution."""
    top = path.name.removesuffix(".tar.gz") + "/"
    with tarfile.open(path) as archive:
        members = archive.getmembers()
        content = {}
        for member in members:
            file = archive.extractfile(member) if member.isfile() else None
            if file is None or not member.name.startswith(top):
                yield f"{member.name}: this is no file below {top}"
            else:
                content[member.name.removeprefix(top)] = file.read()
    yield from metadata(content.pop("PKG-INFO"), path.name.removesuffix(".tar.gz").rpartition("-")[2])
    expected = {f"python/{name}" for name in package_files()} | crate_files()
    expected |= {"Cargo.toml", "Cargo.lock", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff"}
    yield from (f"{name}: this does not belong into the sources" for name in sorted(content.keys() - expected))
    yield from (f"{name}: this is missing from the sources" for name in sorted(expected - content.keys()))
    for name in sorted(content.keys() & expected):
        if name != "pyproject.toml" and not name.endswith("Cargo.toml") and content[name] != (ROOT / name).read_bytes():
            yield f"{name}: this is not the file of the project"
    yield from named_places(content, places)


def crate_files() -> set[str]:
    """The files of the crates, without their tests."""
    found = (path for path in (ROOT / "crates").rglob("*") if path.is_file())
    names = {path.relative_to(ROOT).as_posix() for path in found if "__pycache__" not in path.parts}
    return {name for name in names if name.split("/")[2] != "tests"}


def named_places(content: dict[str, bytes], places: Collection[bytes]) -> Iterator[str]:
    """Files that name a folder of the computer that built them."""
    for name, data in content.items():
        yield from (f"{name}: this names {place.decode()}" for place in places if place in data)


def project_table() -> dict[str, Any]:
    """The table `project` of pyproject.toml."""
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return found


def _record(content: dict[str, bytes], about: str) -> Iterator[str]:
    """Whether RECORD lists every file with its hash."""
    listed = {row[0]: row[1] for row in csv.reader(io.StringIO(content[f"{about}/RECORD"].decode())) if row}
    if listed.keys() != content.keys():
        yield f"RECORD lists other files: {sorted(listed.keys() ^ content.keys())}"
    for name, digest in listed.items():
        if digest and name in content:
            mine = base64.urlsafe_b64encode(hashlib.sha256(content[name]).digest()).rstrip(b"=").decode()
            if digest != f"sha256={mine}":
                yield f"RECORD has another hash of {name}"
