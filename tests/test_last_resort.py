"""Errors that nobody foresaw: one line and a file, never a traceback on the terminal."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support import schemas

BROKEN = """\
import sys
from syncline import __main__, cli, interrupts
class Panic(BaseException):
    pass
def broken(arguments):
    print("a table")
    raise {error}
cli.run = broken
sys.argv = ["syncline", *sys.argv[1:]]
__main__.main()
"""


def ended(error: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command line in which something is wrong."""
    line = [sys.executable, "-c", BROKEN.replace("{error}", error), *arguments]
    environment = {"TMPDIR": str(folder), "PYTHONPATH": ":".join(sys.path)}
    return subprocess.run(line, capture_output=True, text=True, check=False, env=environment, timeout=60)


@pytest.mark.parametrize("error", ["TypeError('unhashable\\ntype')", "Panic('at the disco')", "RecursionError"])
def test_an_error_that_nobody_foresaw_is_a_line_and_a_file(error: str, tmp_path: Path) -> None:
    found = ended(error, "import", "kineto", "a b", folder=tmp_path)
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
    found = ended("ValueError('no')", "run", "x.yaml", "--json", folder=tmp_path)
    assert found.returncode == 1
    document = json.loads(found.stderr)
    assert not schemas.problems("errors", document)
    (problem,) = document["errors"]
    assert problem["value"] == "syncline run x.yaml --json"
    assert "this ended in an error of Syncline itself, which is worth a report (ValueError: no)" in problem["message"]


def test_where_nothing_can_be_written_the_line_says_so(tmp_path: Path) -> None:
    missing = "tempfile.tempdir = '/nonexistent'"
    line = BROKEN.replace("import sys", f"import sys, tempfile\n{missing}", 1).replace("{error}", "ValueError('no')")
    found = subprocess.run([sys.executable, "-c", line, "run"], capture_output=True, text=True, check=False, timeout=60)
    assert found.returncode == 1
    assert "its details could not be written: No such file or directory" in found.stderr
