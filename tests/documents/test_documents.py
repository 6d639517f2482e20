"""Every page of the documentation, run as it stands; and that the runner sees what is wrong with one."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import run, shell, shown
from .page import ROOT, PageError, all_pages, blocks

HELLO = "# A page\n\n```console\n$ echo hello\nhello\n```\n"


@pytest.mark.parametrize("page", all_pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_runs_and_prints_what_it_shows(page: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = run.run(page.read_text(encoding="utf-8"), tmp_path)
    assert not outcome.failures, "\n\n".join(outcome.failures)
    if page.name == "python.md":
        assert {"seed", "topology"} <= set(capsys.readouterr().out.split())
        assert outcome.names["verification"].verified
        assert outcome.names["page"].startswith("<!DOCTYPE html>")
        assert outcome.names["svg"].startswith("<?xml")
        assert outcome.names["cancel"].cancelled


def test_every_page_is_run_but_for_those_that_are_generated() -> None:
    assert {"README.md", "terminal.md", "python.md", "trees.md"} <= {page.name for page in all_pages()}


def failures(text: str, folder: Path, *, slow: bool = False) -> list[str]:
    return run.run(text, folder, slow=slow).failures


def test_a_page_that_is_right_passes(tmp_path: Path) -> None:
    assert not failures(HELLO, tmp_path)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (HELLO.replace("\nhello", "\ngoodbye"), "-goodbye\n+hello"),
        (HELLO.replace("\nhello", "\nhello\nand more"), "-and more"),
        ("```console\n$ syncline list no-such-thing\n```\n", "exit status 2"),
        ("```console\n$ false\n```\n", "exit status 1"),
        ("```console\n$ false | cat\n```\n", "exit status 1"),
        ("```python\nassert 1 + 1 == 3\n```\n", "AssertionError"),
        ("```python\nassert Path\n```\n", "NameError"),
    ],
)
def test_a_page_that_is_wrong_fails(tmp_path: Path, text: str, found: str) -> None:
    (failure,) = failures(text, tmp_path)
    assert found in failure


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("    syncline run my.yaml\n", "commands stand in a block"),
        ("```bash\nls\n```\n", "commands stand in a block"),
        ("```\n$ ls\n```\n", "commands stand in a block"),
        ("```console\nls\n```\n", "begins with a command"),
        ("```console\n$ ls\n", "does not end"),
        ("<!-- not run: -->\n```console\n$ ls\n```\n", "is a sentence"),
        ('```yaml title="../x.yaml"\n```\n', "in the folder of the page"),
    ],
)
def test_a_page_that_hides_commands_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(PageError, match=message):
        run.run(text, tmp_path)


def test_blocks_of_a_page_run_one_after_the_other_in_its_folder(tmp_path: Path) -> None:
    page = (
        '```yaml title="a/my.yaml"\nname: x\n```\n```yaml\nnot: run\n```\n'
        "```console\n$ cat \\\n    a/my.yaml\nname: x\n$ cp a/my.yaml b\n```\n"
        '```python\nfrom pathlib import Path\n\ntext = Path("b").read_text()\n```\n'
        '```python\nassert text == "name: x\\n"\n```\n'
    )
    assert not failures(page, tmp_path)


def test_slow_blocks_run_only_where_they_are_asked_for(tmp_path: Path) -> None:
    page = "<!-- slow -->\n```console\n$ false\n```\n"
    assert not failures(page, tmp_path)
    assert failures(page, tmp_path, slow=True)
    assert not failures("<!-- not run: It needs a GPU. -->\n```console\n$ false\n```\n", tmp_path, slow=True)


def test_a_command_runs_within_the_process_as_it_does_in_a_shell(tmp_path: Path) -> None:
    """Standard output is a terminal of 80 columns in both."""
    line = 'syncline topology show "Ring(4)_Switch(4)"'
    assert shell.run(line) == shell.run(f"{line} ; true")
    assert shell.run("syncline list nothing; echo $?").text.endswith("\n2\n")
    assert max(map(len, shell.run("syncline list algorithms").text.split("\n"))) <= shell.COLUMNS


def test_what_is_shown_may_leave_out_lines_and_parts_of_lines() -> None:
    printed = ["a 1", "b", "c", "took 3 s"]
    for right in (["a 1", "...", "took … s"], ["..."], ["a …", "b", "c", "...", "took 3 s"], ["a 1", "b", "c", "…"]):
        assert shown.agrees(right, printed)
    for wrong in ([], ["a 1", "..."][:1], ["b", "..."], ["a 1", "...", "took … min"], ["a 1", "…", "took 3 s"]):
        assert not shown.agrees(wrong, printed)


def test_an_update_writes_what_is_printed_and_keeps_what_is_left_out(tmp_path: Path) -> None:
    page = "```console\n$ printf 'one\\ntwo\\nthree\\ntook 3 s\\n'\n1\n...\ntook … s\n\n$ echo quiet\n\n"
    page += "$ echo b\nwas a\n```\n"
    new = run.updated(page, run.run(page, tmp_path))
    assert "\none\n...\ntook … s\n" in new
    assert "$ echo quiet\n\n$ echo b\nb\n```" in new
    assert not failures(new, tmp_path)
    assert run.updated(new, run.run(new, tmp_path)) == new


def test_names_of_blocks() -> None:
    found = blocks('1. In a list\n\n    ```console\n    $ ls\n    a\n    ```\n\n```python title="x.py"\n1\n```\n')
    assert [(block.kind, block.line, block.content) for block in found] == [
        ("console", 3, ["$ ls", "a"]),
        ("file", 8, ["1"]),
    ]
