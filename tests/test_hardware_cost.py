"""Area and power of an ACE: the published table, and how it scales."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.command import Ended
from support.experiments import THREE_SYSTEMS
from syncline.sections import hardware_cost
from syncline.sections.hardware_cost import Cost

Command = Callable[..., Ended]

SIZES = st.integers(1, 2**26)
COUNTS = st.integers(1, 256)


def test_the_published_table() -> None:
    cost = hardware_cost.ace(sram_bytes=4 * 2**20, fsms=16, alus=4)
    assert cost == Cost(Fraction(5339031), Fraction("4254.537"))


def test_sixteen_fsms_of_eight_kib_are_the_row_of_the_control_unit() -> None:
    """Two rows of the table that were published side by side."""
    assert hardware_cost.sram(16 * 8 * 2**10) == Cost(Fraction(159803), Fraction(128))


@given(size=SIZES, fsms=COUNTS, alus=COUNTS)
def test_each_part_adds_what_its_row_says(size: int, fsms: int, alus: int) -> None:
    cost = hardware_cost.ace(sram_bytes=size, fsms=fsms, alus=alus)
    more = hardware_cost.ace(sram_bytes=size + 2**20, fsms=fsms, alus=alus)
    assert more.area_um2 - cost.area_um2 == Fraction(5113696, 4)
    more = hardware_cost.ace(sram_bytes=size, fsms=fsms + 16, alus=alus)
    assert more.area_um2 - cost.area_um2 == 159803
    more = hardware_cost.ace(sram_bytes=size, fsms=fsms, alus=alus + 1)
    assert more.power_mw - cost.power_mw == Fraction("7.552")


@pytest.mark.usefixtures("fake_engine")
class TestRuns:
    def test_variants_with_an_ace_say_what_it_costs(self, syncline_command: Command, tmp_path: Path) -> None:
        path = tmp_path / "three.yaml"
        path.write_text(THREE_SYSTEMS)
        ended = syncline_command("run", str(path), "--json", "--set", "variants.Engine.endpoint.sram=8MiB")
        runs = {run["name"]: run for run in json.loads(ended.out)["runs"]}
        assert [name for name, run in runs.items() if "cost_model" in run] == ["Engine"]
        cost, time_s = runs["Engine"]["cost_model"], runs["Engine"]["iteration_time_s"]
        assert cost["area_um2"] == 5339031 + 5113696
        assert cost["energy_per_iteration_j"] == pytest.approx(8.350537 * time_s)
        assert cost["iterations_per_s_per_mm2"] == pytest.approx(1 / time_s / 10.452727)
        assert "10.453 mm2" in syncline_command("run", str(path), "--set", "variants.Engine.endpoint.sram=8MiB").out

    def test_a_collective_on_its_own(self, syncline_command: Command) -> None:
        arguments = ("collective", "all-reduce", "--size", "64MB", "--topology", "Torus(4,4)", "--endpoint", "ace")
        document = json.loads(syncline_command(*arguments, "--json").out)
        assert document["cost_model"]["energy_per_collective_j"] == pytest.approx(4.254537 * document["time_s"])
        assert "5.339 mm2" in syncline_command(*arguments).out


def test_the_report_says_it_too(syncline_command: Command, tmp_path: Path) -> None:
    syncline_command("run", "ace/allreduce", "--set", "workload.size=1MB", "--out", str(tmp_path / "collective"))
    page = (tmp_path / "collective/report.html").read_text()
    assert "s synthesised in 28 nm it takes 5.34 mm\u00b2 and 4.25 W" in page
    (tmp_path / "three.yaml").write_text(THREE_SYSTEMS)
    assert syncline_command("run", str(tmp_path / "three.yaml"), "--out", str(tmp_path / "run")).status == 0
    cost = json.loads((tmp_path / "run/summary.json").read_text())["runs"][1]["cost_model"]
    page = (tmp_path / "run/report.html").read_text()
    assert f"at most {1e3 * cost['energy_per_iteration_j']:.2f} mJ per iteration" in page
    assert f"{cost['iterations_per_s_per_mm2']:.1f} iterations per second and mm\u00b2" in page
