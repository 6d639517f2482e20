"""The packaged sweep of an engine's SRAM and FSMs, a part of it on the real engine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import yaml

from support.command import Ended
from syncline.experiment import packaged as studies

Command = Callable[..., Ended]


def test_a_part_of_the_design_space(syncline_command: Command, tmp_path: Path) -> None:
    path, _ = studies.find_sweep("ace/design-space")
    sweep = yaml.safe_load(path.read_text())
    assert sweep["axes"] == {
        "endpoint.sram": ["1MiB", "2MiB", "4MiB", "8MiB"],
        "endpoint.fsms": [4, 8, 16, 20],
    }
    (tori,) = sweep["zip"]
    assert list(zip(*tori.values(), strict=True)) == [(2, 2), (4, 2), (4, 4), (8, 4)]
    sweep["axes"] = {"endpoint.sram": ["1MiB", "4MiB"], "endpoint.fsms": [4, 16]}
    sweep["zip"] = [{path: [sizes[0], sizes[-1]] for path, sizes in tori.items()}]
    reduced = tmp_path / "reduced.sweep.yaml"
    reduced.write_text(yaml.safe_dump(sweep, sort_keys=False))

    ended = syncline_command("sweep", str(reduced), "--threads", "2", "--json", "-q")
    assert (ended.status, ended.err) == (0, "")
    rows = {
        (row["npus"], row["endpoint.sram_bytes"] >> 20, row["endpoint.fsms"]): row
        for row in json.loads(ended.out)["rows"]
    }
    assert len(rows) == 8
    chosen = rows[128, 4, 16]
    assert rows[128, 4, 4]["iteration_time_s"] > 1.5 * chosen["iteration_time_s"]
    assert rows[128, 1, 16]["iteration_time_s"] > 1.1 * chosen["iteration_time_s"]
    assert rows[16, 1, 4]["iteration_time_s"] < 1.01 * rows[16, 4, 16]["iteration_time_s"]
    assert chosen["area_um2"] == 5339031

    run = json.loads(syncline_command("run", "ace/resnet50", "--json", "-q").out)
    (ace,) = (entry for entry in run["runs"] if entry["name"] == "ACE")
    assert chosen["iteration_time_s"] == ace["iteration_time_s"]
    assert chosen["energy_per_iteration_j"] == ace["cost_model"]["energy_per_iteration_j"]
