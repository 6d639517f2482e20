"""A source distribution and a wheel: made, looked through, installed into a fresh environment and tried.

The wheel is packed from the engine that `.venv` uses, with the settings with which it was built, so that nothing is
built anew. What depends on how it is linked (its tag, folders in it) is checked by `make wheels`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import syncline
from syncline.runtime import library

from . import archives, elf
from .archives import ROOT
from .installed import Installation, tried

MATURIN = Path(sys.executable).with_name("maturin")
BUILT = ROOT / ".venv" / ".engine"
"""How the engine was built (Makefile)."""
EPOCH = {"SOURCE_DATE_EPOCH": "946684800"}


def settings() -> dict[str, str]:
    """The environment with which the engine was built."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CARGO_", "RUSTFLAGS"))}
    lines = BUILT.read_text().splitlines()
    return kept | EPOCH | dict(line.split("=", 1) for line in lines if "=" in line)


def maturin(*arguments: str, cwd: Path = ROOT) -> str:
    """What maturin says."""
    line = [str(MATURIN), *arguments]
    ended = subprocess.run(line, cwd=cwd, env=settings(), capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout + ended.stderr


@pytest.fixture(scope="module")
def source_distribution(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sources")
    maturin("sdist", "--out", str(folder))
    (found,) = folder.glob("*.tar.gz")
    return found


def packed(folder: Path) -> Path:
    """A wheel of the engine that is built already.

    Its binding alone may be compiled again, in seconds: Clippy configures PyO3 in another way than maturin.
    """
    interpreter = ("--interpreter", sys.executable)
    profile = ("--profile", settings()["PROFILE"])
    said = maturin("build", *profile, "--compatibility", "linux", *interpreter, "--out", str(folder))
    assert not re.findall(r"Compiling syncline-(?!python)\w+", said), "the engine was built anew, which takes minutes"
    (found,) = folder.glob("*.whl")
    return found


@pytest.mark.skipif(not BUILT.is_file(), reason="the engine was not built by make")
def test_a_wheel(tmp_path: Path) -> None:
    """In one test, since maturin packs one wheel at a time."""
    wheel = packed(tmp_path / "wheel")
    assert wheel.name == f"syncline-{syncline.__version__}-cp311-abi3-linux_{os.uname().machine}.whl"
    assert {
        "syncline/py.typed",
        "syncline/core/_core.pyi",
        "syncline/examples/plans/ring4.xml",
    } <= archives.package_files()
    assert list(archives.wheel(wheel, [str(ROOT).encode()])) == []
    assert packed(tmp_path / "again").read_bytes() == wheel.read_bytes()

    installation = Installation(tmp_path / "installed")
    installation.install(wheel)
    tried(installation, syncline.__version__, with_library=library.LIBRARY.is_file())

    with zipfile.ZipFile(wheel, "a") as archive:  # what is wrong is found
        archive.writestr("syncline/leftover.txt", f"made in {ROOT}")
    found = list(archives.wheel(wheel, [str(ROOT).encode()]))
    assert [problem.partition(":")[0] for problem in found] == [
        "RECORD lists other files",
        "syncline/leftover.txt",
        "syncline/leftover.txt",
    ]


def test_the_content_of_the_sources(source_distribution: Path) -> None:
    assert list(archives.source_distribution(source_distribution, archives.places())) == []


def test_the_sources_are_packed_the_same_again(source_distribution: Path, tmp_path: Path) -> None:
    maturin("sdist", "--out", str(tmp_path))
    assert (tmp_path / source_distribution.name).read_bytes() == source_distribution.read_bytes()


def test_the_sources_can_be_built(source_distribution: Path, tmp_path: Path) -> None:
    """As far as that can be known without doing so, which takes minutes: cargo finds all that the manifests name, at
    the versions of Cargo.lock, and the sources are those of the engine that the other tests use.
    """
    with tarfile.open(source_distribution) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    about_rust = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    (host,) = re.findall(r"^host: (.*)$", about_rust, re.MULTILINE)  # what others need was never fetched
    line = ["cargo", "metadata", "--locked", "--offline", "--format-version", "1", "--filter-platform", host]
    ended = subprocess.run(line, cwd=unpacked, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    found = {package["name"] for package in json.loads(ended.stdout)["packages"]}
    assert {"syncline-python", "syncline-nccl", "syncline-runtime"} <= found
    maturin(
        "pep517",
        "write-dist-info",
        "--metadata-directory",
        str(tmp_path),
        "--interpreter",
        sys.executable,
        cwd=unpacked,
    )
    (about,) = tmp_path.glob("*.dist-info/METADATA")
    assert list(archives.metadata(about.read_bytes(), syncline.__version__)) == []


@pytest.mark.parametrize("name", ["core/_core.abi3.so", "libsyncline_nccl.so"])
def test_what_a_library_needs_is_what_the_loader_says(name: str) -> None:
    """The reader of ELF files against readelf, where there is one."""
    path = archives.PACKAGE / name
    if shutil.which("readelf") is None or not path.is_file():
        pytest.skip("there is no readelf, or no library")
    found = elf.read(path.read_bytes())
    said = subprocess.run(["readelf", "-W", "-V", "-d", str(path)], capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"\(NEEDED\).*\[(.*)\]", said)) == set(found.needed)
    versions = set(re.findall(r"Name: (\S+)  Flags", said))
    assert versions == found.versions
    assert found.glibc >= (2, 14)
    assert list(archives.library(path.read_bytes(), ["linux_aarch64"]))


def test_a_library_that_needs_more_than_its_tag_promises_is_found() -> None:
    data = (archives.PACKAGE / "core/_core.abi3.so").read_bytes()
    needs = elf.read(data).glibc
    found = list(archives.library(data, [f"manylinux2014_{os.uname().machine}"]))
    assert any("it needs glibc" in problem for problem in found) == (needs > (2, 17))
    with pytest.raises(ValueError, match="no ELF file"):
        elf.read(b"MZ" + data[2:])
