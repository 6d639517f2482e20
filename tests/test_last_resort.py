"""Errors that nobody foresaw: one line and a file, never a traceback on the terminal."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support import schemas
from syncline.studies.sweeps import pool

BROKEN = """\
import sys
from syncline import __main__
from syncline.base import interrupts
from syncline.commands import cli
class Panic(BaseException):
    pass
def broken(arguments):
    print("a table")
    {what}
    return 0
cli.run = broken
sys.argv = ["syncline", *sys.argv[1:]]
__main__.main()
"""


def ended(what: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command line in which something is wrong."""
    line = [sys.executable, "-c", BROKEN.replace("{what}", what), *arguments]
    environment = {"TMPDIR": str(folder), "PYTHONPATH": ":".join(sys.path)}
    return subprocess.run(line, capture_output=True, text=True, check=False, env=environment, timeout=60)


@pytest.mark.parametrize("error", ["TypeError('unhashable\\ntype')", "Panic('at the disco')", "RecursionError"])
def test_an_error_that_nobody_foresaw_is_a_line_and_a_file(error: str, tmp_path: Path) -> None:
    found = ended(f"raise {error}", "import", "kineto", "a b", folder=tmp_path)
    assert (found.returncode, found.stdout) == (1, "a table\n")
    (line,) = found.stderr.splitlines()
    said = "syncline import kineto 'a b': this ended in an error of Syncline itself, "
    match = re.fullmatch(rf"{re.escape(said)}.* details are in (/.*\.txt)", line)
    assert match is not None, line
    details = Path(match[1]).read_text()
    assert details.startswith("command: syncline import kineto 'a b'\n")
    assert "Traceback (most recent call last)" in details
    assert f"\n{'RecursionError' if error == 'RecursionError' else error.split('(', maxsplit=1)[0]}" in details.replace(
        "__main__.", ""
    )
    assert re.search(r"^pydantic: \d", details, re.MULTILINE)


def test_with_json_it_is_an_error_object(tmp_path: Path) -> None:
    found = ended("raise ValueError('no')", "run", "x.yaml", "--json", folder=tmp_path)
    assert found.returncode == 1
    document = json.loads(found.stderr)
    assert not schemas.problems("errors", document)
    (problem,) = document["errors"]
    assert problem["value"] == "syncline run x.yaml --json"
    assert "this ended in an error of Syncline itself, which is worth a report (ValueError: no)" in problem["message"]


def test_where_nothing_can_be_written_the_line_says_so(tmp_path: Path) -> None:
    missing = "tempfile.tempdir = '/nonexistent'"
    line = BROKEN.replace("import sys", f"import sys, tempfile\n{missing}", 1).replace(
        "{what}", "raise ValueError('no')"
    )
    found = subprocess.run([sys.executable, "-c", line, "run"], capture_output=True, text=True, check=False, timeout=60)
    assert found.returncode == 1
    assert "its details could not be written: No such file or directory" in found.stderr


def test_an_error_of_a_thread_is_a_line_as_well(tmp_path: Path) -> None:
    found = ended("import threading; t = threading.Thread(target=int, args='x'); t.start(); t.join()", folder=tmp_path)
    assert (found.returncode, found.stdout) == (0, "a table\n")
    assert "(ValueError: invalid literal for int() with base 10: 'x')" in found.stderr
    assert "Traceback" not in found.stderr


def test_an_error_of_a_worker_is_a_line_as_well(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    outcomes = dict(pool.carry_out(int, [("first", ("x",)), ("second", ("7",))], 2))  # type: ignore[arg-type]
    assert str(outcomes["second"]) == "7"
    assert "ended unexpectedly (exit status 1)" in str(outcomes["first"])
    err = capfd.readouterr().err
    assert "this ended in an error of Syncline itself" in err
    assert "Traceback" not in err
