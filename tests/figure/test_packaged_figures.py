"""Every figure that comes with the package finds its columns and published places in what its sweeps and runs give."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.command import Ended
from syncline import studies

ROOT = Path(studies.__file__).parent
FIGURES = sorted(str(path.relative_to(ROOT)).removesuffix(".figure.yaml") for path in ROOT.rglob("*.figure.yaml"))


@pytest.mark.usefixtures("fake_engine")
@pytest.mark.parametrize("name", FIGURES)
def test_is_drawn(name: str, syncline_command: Callable[..., Ended], tmp_path: Path) -> None:
    ended = syncline_command("figure", name, "--out", str(tmp_path), "--threads", "1")
    assert ended.status == 0, ended.err
