"""What `calibrate` takes to describe a table, and what is kept of it in a class file."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from pathlib import Path

import pytest

from syncline.base.errors import InputError
from syncline.nccl import calibration, constants, selection, systems
from syncline.nccl.calibration import Errors, Run
from syncline.nccl.constants import Software
from syncline.nccl.measured import Line, Measured, Part
from syncline.nccl.model import Model, open_model
from syncline.nccl.platform import NCCL, platform

MIB, GIB = 2**20, 2**30
LARGE = tuple(2**k for k in range(20, 34))
TABLES = ("h100-16-tree", "h100-64-tuned", "a100-32-deepops", "v100-12-dgx2-broadcast", "h20-8-nvls")
"""Several nodes, and what a line follows best; docs/validation.md has all tables (`make validation`)."""
TWO_NODES = "dgx-h100(nodes=2)"


def table(machine: str, seconds: dict[int, float], algorithm: str = "auto") -> Run:
    return Run("made up", platform(machine), "all-reduce", algorithm, tuple(sorted(seconds.items())))


def start(run: Run) -> constants.Constants:
    return constants.load(run.platform.software).constants


def unseen(run: Run) -> tuple[Errors, Errors]:
    """Every other size, as predicted by what is taken for the rest, and by the plain fit to it."""
    found: list[calibration.Residual] = []
    plain: list[calibration.Residual] = []
    for parity in (0, 1):
        kept, rest = run.part(parity), run.part(1 - parity)
        found += selection.select(kept, start(run)).residuals(rest)
        plain += calibration.alpha_beta_residuals(rest, calibration.alpha_beta(kept.times))
    return calibration.errors_of(found), calibration.errors_of(plain)


@pytest.mark.parametrize("name", TABLES)
def test_no_table_is_predicted_worse_than_by_a_line(name: str) -> None:
    found, plain = unseen(systems.run(name))
    assert (found.large or 0) <= (plain.large or 0)
    assert (found.small or 0) <= (plain.small or 0)


class TestOtherNetworks:
    def test_a_congested_ring(self) -> None:
        """Eleven sizes; from 512 MiB up the rate falls to a third of what it was, which is a third of the NICs'."""
        seconds = {
            size: 300e-6 + 1.875 * min(size, 512 * MIB) / 120e9 + 1.875 * max(size - 512 * MIB, 0) / 40e9
            for size in LARGE[3:]
        }
        run = table(TWO_NODES, seconds, "ring")
        found = selection.select(run, start(run))
        assert max(abs(r.error) for r in found.residuals(run) if r.size >= 512 * MIB) < 0.1
        held, plain = unseen(run)
        assert held.large is not None
        assert plain.large is not None
        assert held.large <= plain.large

    @pytest.mark.parametrize("share", [0.05, 0.3, 3.0])
    def test_a_network_of_another_rate(self, share: float) -> None:
        """Slower than the class by any factor, or faster than the machine's NICs."""
        run = table(TWO_NODES, {size: 120e-6 + 1.875 * size / (share * 400e9) for size in LARGE}, "ring")
        held, plain = unseen(run)
        assert held.large is not None
        assert held.large <= (plain.large or 0) + 1e-3
        assert held.large < 0.02

    def test_constants_follow_a_slow_network(self) -> None:
        """What they say of other numbers of nodes follows the NICs' rate of the table."""
        run = table(TWO_NODES, {size: 120e-6 + 1.875 * size / (0.25 * 400e9) for size in LARGE}, "ring")
        fitted = selection.select(run, start(run)).constants
        assert fitted.efficiency_network == pytest.approx(0.25, rel=0.05)

    def test_what_is_a_line_stays_one(self) -> None:
        """Times of a line with 10 % of noise: on average what is taken is hardly worse (by 8 % with eight seeds)."""
        ratios = []
        for seed in range(3):
            rng = random.Random(seed)
            seconds = {size: (80e-6 + size / 100e9) * math.exp(rng.gauss(0, 0.1)) for size in LARGE}
            held, plain = unseen(table("dgx-a100(nodes=2)", seconds))
            ratios.append((held.large or 0) / (plain.large or 1))
        assert math.fsum(ratios) / len(ratios) < 1.1


class TestFactors:
    def test_one_size_that_is_far_off_hardly_counts(self) -> None:
        ratios = [(2**k, 1.2) for k in range(10, 30)]
        ratios[7] = (2**17, 9.0)
        found = selection.smoothed(ratios)
        assert found[7] == pytest.approx(1.2, rel=0.1)
        assert found[0] == pytest.approx(1.2, rel=0.02)

    def test_between_sizes_it_is_interpolated_and_beyond_it_stays(self) -> None:
        part = Part("line", (1024, 4096), (1.0, 4.0))
        assert [part.factor(size) for size in (8, 1024, 2048, 4096, GIB)] == pytest.approx([1, 1, 2, 4, 4])
        assert Part("line").factor(77) == 1.0

    def test_the_parts_are_joined_below_a_mebibyte(self) -> None:
        line = Line(1.0, 0.0)
        found = Measured("m", "all-reduce", "auto", 8, 1, line, Part("constants"), Part("line"))
        assert found.time(MIB // 2, 16.0) == pytest.approx(16.0)
        assert found.time(MIB, 16.0) == pytest.approx(1.0)
        assert 1.0 < found.time(3 * MIB // 4, 16.0) < 16.0


class TestClassFile:
    def software(self) -> Software:
        run = systems.run("a100-8-oci")
        found = selection.select(run, start(run))
        return Software("mine", "", ("dgx-a100",), found.constants, measured=found.measured)

    def test_it_is_read_back(self) -> None:
        written = self.software()
        again = constants.parse(constants.render(written), "mine.yaml").measured
        assert again is not None
        assert written.measured is not None
        assert (again.machine, again.kind, again.gpus, again.nodes) == ("dgx-a100", "all-reduce", 8, 1)
        for size in (8, MIB, 16 * GIB):
            assert again.time(size, 1e-3) == pytest.approx(written.measured.time(size, 1e-3), rel=1e-4)

    def test_the_nccl_of_the_table_is_kept(self, tmp_path: Path) -> None:
        """`bench` with the file chooses as the system did; a file without it is of the usual release."""
        software = self.software()
        assert software.measured is not None
        assert "nccl" not in constants.render(replace(software, measured=replace(software.measured, nccl=NCCL)))
        old = replace(software, measured=replace(software.measured, nccl=(2, 4), channels=24))
        again = constants.parse(constants.render(old), "mine.yaml").measured
        assert again is not None
        assert (again.nccl, again.channels) == ((2, 4), 24)
        file = tmp_path / "mine.yaml"
        file.write_text(constants.render(old), encoding="utf-8")
        opened = open_model(platform("dgx-a100"), software=str(file))
        assert (opened.platform.nccl, opened.platform.ctas) == ((2, 4), 24)
        assert opened.is_measured
        assert {way.protocol for way in opened.candidates(MIB)} == {"LL", "Simple"}

    def test_it_holds_for_the_table_and_nothing_else(self) -> None:
        software = self.software()
        same = Model(platform("dgx-a100"), software)
        other = Model(platform("dgx-a100"), software, "all-gather")
        plain = Model(platform("dgx-a100"), replace(software, measured=None), "all-gather")
        assert same.is_measured
        assert not other.is_measured
        assert not Model(platform("dgx-a100", "0-3"), software).is_measured
        assert other.time(MIB) == plain.time(MIB)

    @pytest.mark.parametrize(
        ("before", "after", "reason"),
        [
            ("  gpus: 8", "  gpus: eight", "this is not a number"),
            ("  nodes: 1", "  nodes: 1.5", "this is not a whole number"),
            ("  collective: all-reduce", "  collective: all", "this is not known"),
            ("  from_1MiB:", "  from_2MiB:", "from_1MiB is missing"),
            ("    base: constants", "    base: table", "the base is not known"),
            ("  algorithm: auto\n", "", "algorithm is missing"),
        ],
    )
    def test_what_is_wrong_with_it_is_said(self, before: str, after: str, reason: str) -> None:
        text = constants.render(self.software())
        assert before in text
        with pytest.raises(InputError, match=reason):
            constants.parse(text.replace(before, after), "mine.yaml")
