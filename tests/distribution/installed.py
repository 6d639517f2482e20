"""An installed Syncline, tried from outside: a fresh environment, an empty folder, no checkout on any path."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from .archives import ROOT

PURELIB: Final = sysconfig.get_path("purelib")
API: Final = """
import json, pathlib, syncline
run = syncline.run("examples/compare-endpoints.yaml", set={"training.iterations": 1})
assert run.status == "complete", run.status
assert len(run.systems) > 1
run.save("saved")
assert syncline.read("saved").document == run.document
print(json.dumps([syncline.__version__, str(pathlib.Path(syncline.__file__).parent), syncline.Table.__module__]))
"""


class Installation:
    """An environment with Syncline in it, and nothing else: what it needs is looked up where these tests run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work = folder / "work"
        self.work.mkdir(parents=True)
        venv.create(folder / "venv", with_pip=False, symlinks=True)
        site = sysconfig.get_path("purelib", vars={"base": str(folder / "venv")})
        self.site = Path(site)
        # A path in a .pth file comes last, and .pth files in it are not read: not that of an editable Syncline.
        (self.site / "needed.pth").write_text(PURELIB + "\n")
        self.python = folder / "venv" / "bin" / "python"

    def install(self, archive: Path, more: Mapping[str, str] | None = None) -> str:
        """Installs a wheel or a source distribution with pip, which may not ask anybody for anything."""
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), "--disable-pip-version-check"]
        line = [*pip, "install", "--force-reinstall", "--no-deps", "--no-index", "--no-build-isolation", str(archive)]
        # maturin, which builds a source distribution, is a program beside the interpreter of these tests.
        found = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        return self.run(line, {"PATH": found, **(more or {})})

    def syncline(self, *arguments: str) -> str:
        """What the command prints."""
        return self.run([str(self.folder / "venv" / "bin" / "syncline"), *arguments])

    def run(self, line: list[str], more: Mapping[str, str] | None = None) -> str:
        """What a program prints. Raises [`AssertionError`] with all that it said if it fails."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COVERAGE"))}
        environment = kept | {"NO_COLOR": "1", "COLUMNS": "80", **(more or {})}
        ended = subprocess.run(line, cwd=self.work, env=environment, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, f"{line} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}"
        return ended.stdout


def tried(installation: Installation, version: str, *, with_library: bool) -> None:
    """Does with an installed Syncline what its users do first. Raises [`AssertionError`]."""
    assert installation.syncline("--version") == f"{version}\n"
    said = json.loads(installation.run([str(installation.python), "-c", API]))
    assert said[:2] == [version, str(installation.site / "syncline")]
    study = json.loads(installation.syncline("run", "ace1/allreduce", "--out", "out", "--json"))
    assert study["status"] == "complete"
    assert (installation.work / "out" / "report.html").stat().st_size > 10_000
    assert "dgx-h100" in installation.syncline("list", "machines")
    installation.syncline("init", "mine")
    assert (installation.work / "experiment.schema.json").is_file()
    installation.syncline("check", "mine.yaml")
    assert json.loads(
        installation.syncline("bench", "all-reduce", "--machine", "dgx-h100", "--sizes", "1MiB", "--json")
    )
    installation.syncline("verify", "examples/plans/ring4.xml")
    if with_library:
        sizes = "1KiB,4KiB,16KiB,64KiB"
        ran = installation.syncline("bench", "all-reduce", "--execute", "--ranks", "2", "--sizes", sizes, "--json")
        assert [row["wrong"] for row in json.loads(ran)["rows"]] == [0] * 4
    assert str(ROOT).encode() not in (installation.work / "out" / "summary.json").read_bytes()
