"""Every figure that comes with the package finds its columns and published places in what its sweeps and runs give."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.command import Ended
from syncline.engine import demand, planned
from syncline.experiment import packaged as studies
from syncline.sections.experiment import Experiment

ROOT = Path(studies.__file__).parent
FIGURES = sorted(str(path.relative_to(ROOT)).removesuffix(".figure.yaml") for path in ROOT.rglob("*.figure.yaml"))


def without_trees(_: Experiment, specified: dict[str, Any], __: object) -> dict[str, Any]:
    """The engine's description, with nothing in the place of trees."""
    for section in demand.sections(specified):
        section.pop("trees", None)
    return specified


@pytest.mark.usefixtures("fake_engine")
@pytest.mark.parametrize("name", FIGURES)
def test_is_drawn(
    name: str, syncline_command: Callable[..., Ended], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The engine that takes no time needs no trees either, for which most of the time would be spent.
    monkeypatch.setattr(planned, "completed", without_trees)
    ended = syncline_command("figure", name, "--out", str(tmp_path), "--threads", "1")
    assert ended.status == 0, ended.err
