"""`python -m syncline.measurements.fit`: constants of tiles and waves from a table."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from syncline.fabric.gpus import GPUS
from syncline.measurements import fit
from syncline.measurements.fit import Constants
from syncline.sections import compute, kernel_table

H200 = Path(compute.__file__).parents[1] / "measurements/tables/nvidia-h200.csv"


@pytest.fixture(scope="module")
def rows() -> list[kernel_table.Row]:
    return fit.products(kernel_table.read(H200.read_bytes(), H200.name).rows, "bf16")


def chosen(rows: list[kernel_table.Row]) -> list[kernel_table.Row]:
    return [row for row in rows if (row.kernel.m, row.kernel.k, row.kernel.n) in fit.POINTS and row.kernel.count == 1]


def test_each_shape_counts_once(rows: list[kernel_table.Row]) -> None:
    shapes = [(row.kernel.m, row.kernel.k, row.kernel.n, row.kernel.count) for row in rows]
    assert len(shapes) == len(set(shapes)) == 927
    assert {shape[:3] for shape in shapes if shape[3] == 1} > set(fit.POINTS)
    # (4096, 1024, 4096) was measured in the grid, and twice as a layer of a model: 52.1, 54.0 and 56.5 us.
    (three,) = (row for row in chosen(rows) if (row.kernel.m, row.kernel.k, row.kernel.n) == (4096, 1024, 4096))
    assert three.time_s == pytest.approx(53.97e-6, rel=1e-3)


def test_the_command_finds_constants_that_are_as_good_as_those_in_use() -> None:
    line = [sys.executable, "-m", "syncline.measurements.fit", str(H200), "--gpu", "h200"]
    ended = subprocess.run(line, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    section = yaml.safe_load(ended.stdout)["npu"]
    assert (section["gpu"], section["compute"]["kind"]) == ("h200", "tiles")
    compute.Compute.model_validate(section["compute"])  # an experiment takes them as they are
    said = re.findall(r"# (.*): ([\d.]+)% of these products, ([\d.]+)% of (\d+) others", ended.stdout)
    found = {who: (float(fitted), float(others)) for who, fitted, others, _ in said}
    assert [of[3] for of in said] == ["915", "915"]
    for at, limit in ((0, 0.5), (1, 0.5)):  # percentage points
        assert abs(found["these constants"][at] - found["the defaults"][at]) < limit


def test_a_fit_finds_constants_again(rows: list[kernel_table.Row], monkeypatch: pytest.MonkeyPatch) -> None:
    """Times that the model itself made are fitted almost exactly."""
    monkeypatch.setattr(fit, "STEPS", 600)
    made = Constants(sustained=0.7, fill=60, launch=3e6)
    described = made.described(GPUS["h200"], "bf16")
    times = fit.ratios([kernel_table.Row(row.kernel, row.bytes, 1.0) for row in chosen(rows)], described)
    of_model = [kernel_table.Row(row.kernel, row.bytes, time) for row, time in zip(chosen(rows), times, strict=True)]
    found = fit.fitted(of_model, GPUS["h200"], "bf16", seeds=[0])
    errors = [abs(ratio - 1) for ratio in fit.ratios(of_model, found.described(GPUS["h200"], "bf16"))]
    assert sum(errors) / len(errors) < 0.02


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["nothing.csv", "--gpu", "h200"], "nothing.csv: there is no such file"),
        ([str(H200), "--gpu", "h300"], "--gpu: this is not known"),
        ([str(H200), "--gpu", "p100", "--precision", "bf16"], "--precision: the "),
        ([str(H200), "--gpu", "h200", "--precision", "fp16"], "TABLE: the table has 5 of 12 products"),
    ],
)
def test_what_cannot_be_fitted_is_said(line: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert fit.main(line) == 2
    ended = capsys.readouterr()
    assert ended.out == ""
    assert said in ended.err
