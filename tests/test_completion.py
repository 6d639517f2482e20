"""What shells complete, asked of real ones: the script is loaded, and its function called as at a prompt."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.command import Ended
from syncline.commands.cli import completion, shells

Command = Callable[..., Ended]

ASK = """
eval "$(syncline completion bash)"
ask() {
    COMP_WORDS=("$@"); COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 )); COMPREPLY=()
    _syncline_completion syncline "${COMP_WORDS[COMP_CWORD]}" 2>/dev/null
    printf '%s|' "${COMPREPLY[@]}"; echo
}
"""
LINES = {
    "run ace/res": ["ace/resnet50", "ace/resnet50-astra", "ace/resnet50-dynamic"],
    "run mi": ["mine.yaml", "mixed/"],
    "run --alg": ["--algorithm"],
    "bench all-reduce --machine dgx-h": ["dgx-h100", "dgx-h200"],
    "run x.yaml --algorithm ri": ["ring", "ring-unidirectional"],
    "collective all-r": ["all-reduce"],
}
"""By what is typed, what may follow."""


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a shell that finds the command, in a folder with some files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").touch()
    (tmp_path / "mixed").mkdir()
    (tmp_path / "minutes.txt").touch()
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def test_in_bash(shell: dict[str, str]) -> None:
    asked = "\n".join(f"ask syncline {line}" for line in LINES)
    bash = ["bash", "--norc", "-c", ASK + asked]
    ended = subprocess.run(bash, env=shell, capture_output=True, text=True, check=True)
    found = [line.rstrip("|").split("|") for line in ended.stdout.splitlines()]
    assert dict(zip(LINES, found, strict=True)) == LINES


@pytest.mark.parametrize("name", ["zsh", "fish"])
def test_in_other_shells(name: str, shell: dict[str, str]) -> None:
    """These scripts are at least legal, where the shell is installed."""
    if shutil.which(name) is None:
        pytest.skip(f"there is no {name}")
    flag = "-n" if name == "zsh" else "--no-execute"
    subprocess.run([name, flag, "/dev/stdin"], input=completion.SCRIPTS[name], text=True, check=True, env=shell)


@pytest.mark.parametrize("name", ["zsh", "fish"])
def test_what_other_shells_are_told(name: str, shell: dict[str, str]) -> None:
    """What the scripts ask for, without the shell."""
    asked = {shells.ASKED: f"complete_{name}", "_TYPER_COMPLETE_ARGS": "syncline bench all-reduce --machine dgx-h"}
    asked["_TYPER_COMPLETE_FISH_ACTION"] = "get-args"
    command = [sys.executable, "-m", "syncline"]
    ended = subprocess.run(command, env={**shell, **asked}, capture_output=True, text=True, check=True)
    assert "dgx-h100" in ended.stdout
    assert "dgx-a100" not in ended.stdout


def test_unknown_shells(syncline_command: Command) -> None:
    ended = syncline_command("completion", "bsh")
    assert (ended.status, ended.out) == (2, "")
    assert "did you mean 'bash'?" in ended.err
