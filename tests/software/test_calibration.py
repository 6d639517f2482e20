"""How well the model predicts what it did not see. The figures are those of docs/validation.md."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lab import validation
from syncline.base.errors import InputError
from syncline.nccl import calibration, constants, measurements, networks, systems
from syncline.nccl.calibration import Given, Residual, Run
from syncline.nccl.constants import START
from syncline.nccl.model import Model
from syncline.nccl.platform import platform
from syncline.nccl.solver import minimise, soften

FOUR = ("a100-8-oci", "h100-8-nvls", "v100-8-dgx1", "h100-16-ring")
VALIDATION = Path(__file__).parents[2] / "docs" / "validation.md"


class TestHoldOut:
    @pytest.mark.parametrize("name", FOUR)
    def test_one_size_in_four_is_predicted(self, name: str) -> None:
        errors = validation.selected(name).held_out["chosen"]
        assert errors.large is not None
        assert errors.large <= validation.TARGET_LARGE
        assert (errors.small or 0) <= validation.TARGET_SMALL

    @pytest.mark.parametrize("name", [*FOUR[:3], "h100-32-vm", "a100-16-oci"])
    def test_constants_that_know_no_class_are_better_than_a_line(self, name: str) -> None:
        run = systems.run(name)
        model = calibration.errors_of(calibration.hold_out(run)).large
        plain = calibration.errors_of(calibration.alpha_beta_hold_out(run)).large
        assert model is not None
        assert plain is not None
        assert model < plain / 2

    def test_what_it_predicts_it_has_not_seen(self) -> None:
        run = systems.run("v100-8-dgx1")
        changed = replace(run, times=tuple((s, t * (3 if i == 10 else 1)) for i, (s, t) in enumerate(run.times)))
        before = {r.size: r.predicted for r in calibration.hold_out(run)}
        after = {r.size: r.predicted for r in calibration.hold_out(changed)}
        assert before[run.times[10][0]] == after[run.times[10][0]]

    @pytest.mark.parametrize("name", ["efficiency_simple", "launch"])
    def test_a_wrong_constant_is_noticed(self, name: str) -> None:
        """The targets can be missed: they fail once a constant that matters is off by a quarter."""
        run = systems.run("v100-8-dgx1")
        good = calibration.fit([run])
        bad = good.changed({name: getattr(good, name) * 0.75})
        assert _within_targets(calibration.residuals_of(run, good))
        assert not _within_targets(calibration.residuals_of(run, bad))


class TestSystemsLeftOut:
    @pytest.mark.parametrize(
        "name", ["a100-8-oci", "a100-8-superbench", "h100-8-nvls", "h20-8-nvls", "h100-8-reduce-scatter-ring"]
    )
    def test_a_system_of_a_known_class(self, name: str) -> None:
        plan, system = next((p, s) for p in systems.PLANS for s in p.systems if name in s)
        others = systems.fit_class(plan, system)
        errors = calibration.errors_of(calibration.residuals_of(systems.run(name), others.constants))
        assert errors.large is not None
        assert errors.large <= validation.TARGET_OTHER_SYSTEM

    @pytest.mark.parametrize(
        ("name", "large", "largest"),
        [
            ("h100-16-tree", 0.045, 0.025),
            ("h100-32-vm", 0.07, 0.03),
            ("a100-32-deepops", 0.1, 0.05),
            ("a100-16-oci", 0.1, 0.05),
            ("h100-16-efa", 0.125, 0.07),
        ],
    )
    def test_systems_of_several_nodes(self, name: str, large: float, largest: float) -> None:
        system = validation.network_left_out(systems.run(name).platform.network, name)
        residuals = system.left_out()
        assert (calibration.errors_of(residuals).large or 1) <= large
        plateau = [r for r in residuals if r.size >= calibration.PLATEAU]
        assert (calibration.errors_of(plateau).large or 1) <= largest

    def test_one_to_four_mebibytes_on_eight_nodes(self) -> None:
        """Trees with LL128, as deep as the logarithm of the nodes."""
        residuals = validation.network_left_out("infiniband", "h100-64-tuned").left_out()
        assert all(abs(r.error) < 0.25 for r in residuals if r.size <= 4 * calibration.MIB)

    def test_two_systems_on_efa_give_the_same_delay(self) -> None:
        """GPUs, NICs, years and algorithms differ; what the network adds to a step does not."""
        tables = networks.NETWORKS["efa"].fitted_on
        delays = [systems.fit_network("efa", [table])["network_delay"] for table in tables]
        assert len(delays) == 2
        assert delays[0] == pytest.approx(delays[1], rel=0.2)

    def test_what_is_left_out_leaves_nothing_behind(self) -> None:
        """The only table with a single NIC says what such a NIC carries; without it, nobody does."""
        without = systems.fit_network("efa", ["v100-16-p3dn-ring"])
        assert without["efficiency_single"] == networks.VERBS["efficiency_single"]
        assert systems.fit_network("efa")["efficiency_single"] < 0.7

    def test_the_networks_are_what_the_tables_give(self) -> None:
        for name, network in networks.NETWORKS.items():
            assert systems.fit_network(name) == pytest.approx(dict(network.constants), rel=0.02)

    @pytest.mark.parametrize("name", ["a100-8-superbench", "h20-8-nvls"])
    def test_below_a_mebibyte_the_interval_holds_it(self, name: str) -> None:
        plan, system = next((p, s) for p in systems.PLANS for s in p.systems if name in s)
        run = systems.run(name)
        model = Model(run.platform, systems.fit_class(plan, system), run.kind, run.algorithm)
        for size, measured in run.times:
            if size < calibration.MIB:
                assert model.predict(size).low <= measured <= model.predict(size).high

    def test_the_class_files_are_what_the_tables_give(self) -> None:
        for plan in systems.PLANS:
            again = constants.parse(constants.render(systems.fit_class(plan)), plan.name)
            shipped = constants.load(plan.name)
            assert again.fitted_on == shipped.fitted_on
            for name, value in shipped.constants.as_mapping().items():
                assert getattr(again.constants, name) == pytest.approx(value, rel=0.02)


class TestFit:
    def test_it_finds_the_constants_behind_made_up_times(self) -> None:
        truth = START.changed({"launch": 33e-6, "efficiency_simple": 0.7, "base_simple": 60e-6})
        sizes = tuple(2**k for k in range(3, 34))
        run = Run("made up", platform("dgx-a100"), "all-reduce", "auto", tuple((s, 1.0) for s in sizes))
        times = tuple((r.size, r.predicted) for r in calibration.residuals_of(run, truth))
        found = calibration.fit([replace(run, times=times)])
        assert found.launch == pytest.approx(33e-6, rel=0.03)
        assert found.efficiency_simple == pytest.approx(0.7, rel=0.02)

    def test_what_a_table_says_nothing_of_stays(self) -> None:
        found = calibration.fit([systems.run("v100-8-dgx1")])
        for name in ("nvls_latency", "efficiency_nvls", *constants.NETWORK):
            assert getattr(found, name) == getattr(START, name)

    def test_an_outlier_hardly_counts(self) -> None:
        run = systems.run("h100-8-nvls")
        clean = replace(run, times=tuple((s, t) for s, t in run.times if s not in (32, 4096)))
        with_outliers, without = calibration.fit([run]), calibration.fit([clean])
        assert with_outliers.launch == pytest.approx(without.launch, rel=0.15)
        assert with_outliers.efficiency_nvls == pytest.approx(without.efficiency_nvls, rel=0.01)

    def test_it_is_deterministic(self) -> None:
        run = systems.run("a100-8-oci")
        assert calibration.fit([run]) == calibration.fit([run])


class TestAlphaBeta:
    def test_a_line_is_found(self) -> None:
        times = [(2**k, 10e-6 + 2**k / 100e9) for k in range(10, 34)]
        found = calibration.alpha_beta(times)
        assert found.alpha == pytest.approx(10e-6)
        assert found.beta == pytest.approx(100e9)

    def test_times_that_do_not_grow(self) -> None:
        assert calibration.alpha_beta([(8, 1e-5), (16, 1e-5), (32, 1e-5)]).time(2**30) == pytest.approx(1e-5)


class TestFittingTogether:
    def run(self, name: str, machine: str) -> Run:
        return calibration.run_of(measurements.packaged(name), platform(machine))

    def test_the_spread_of_all_is_that_of_runs_on_more_than_two_nodes(self) -> None:
        """On two nodes flows have no others to be spread over evenly, so that nothing is known of it there."""
        truth = START.changed({"efficiency_spread": 0.6 * START.efficiency_spread})
        runs = []
        for nodes in (2, 4):
            sizes = tuple((2**k, 1.0) for k in range(12, 32, 3))
            run = Run("made up", platform(f"dgx-h100(nodes={nodes})"), "all-reduce", "ring", sizes)
            times = tuple((r.size, r.predicted) for r in calibration.residuals_of(run, truth))
            runs.append(replace(run, times=times))
        together, (two, four) = calibration.fit_each(runs)
        assert together.efficiency_spread == pytest.approx(four.efficiency_spread)
        assert four.efficiency_spread < 0.9 * two.efficiency_spread == pytest.approx(0.9 * START.efficiency_spread)

    def test_fewer_gpus_than_the_machine_has(self) -> None:
        assert self.run("v100-12-dgx2", "dgx2").platform.gpus == 12

    def test_more_gpus_than_the_machine_has(self) -> None:
        with pytest.raises(InputError, match="measured on 2 nodes, dgx-h100 has 1") as caught:
            self.run("h100-16-ring", "dgx-h100")
        assert caught.value.problems[0].accepted == "--machine dgx-h100(nodes=2)"

    def test_no_size_with_a_time(self) -> None:
        table = measurements.parse("size_bytes,time_us\n8,-\n16,-\n", "t")
        with pytest.raises(InputError, match="no size has a time out-of-place"):
            calibration.run_of(table, platform("dgx-a100"))

    def test_the_algorithm_may_be_stated(self) -> None:
        table = measurements.parse("size_bytes,time_us\n8,1\n16,1\n", "t")
        assert calibration.run_of(table, platform("dgx-a100"), Given(algorithm="ring")).algorithm == "ring"
        assert calibration.run_of(table, platform("dgx-a100")).algorithm == "auto"
        gathered = Given(kind="all-gather", algorithm="ring")
        assert calibration.run_of(table, platform("dgx-a100"), gathered).algorithm == "auto"

    @pytest.mark.parametrize(
        ("machine", "kind", "measured", "stated", "accepted"),
        [
            ("dgx-a100", None, "auto", "tree", "auto, ring"),
            ("dgx-a100(nodes=2)", None, "ring", "tree", "ring"),
            ("dgx-a100(nodes=2)", "all-gather", "auto", "tree", "auto, ring"),
            ("dgx-a100", None, "auto", "nvls", "auto, ring"),
            ("dgx-h100", "all-to-all", "auto", "ring", "auto"),
        ],
    )
    def test_an_algorithm_that_does_not_fit(
        self, machine: str, kind: str | None, measured: str, stated: str, accepted: str
    ) -> None:
        table = replace(measurements.parse("size_bytes,time_us\n8,1\n16,1\n", "t"), algorithm=measured)
        with pytest.raises(InputError) as caught:
            calibration.run_of(table, platform(machine), Given(kind=kind, algorithm=stated))
        assert (caught.value.problems[0].field, caught.value.problems[0].accepted) == ("algorithm", accepted)

    def test_an_algorithm_that_is_not_there(self) -> None:
        table = replace(measurements.packaged("a100-8-oci"), algorithm="nvls")
        with pytest.raises(InputError, match="dgx-a100 does not run all-reduce with 'nvls'"):
            calibration.run_of(table, platform("dgx-a100"))

    def test_a_table_of_who_knows_what(self) -> None:
        rows = "".join(f"{2**k} {2**k // 4} float {2**k / 100e3:.2f} 100.00 87.50 0\n" for k in range(20, 26))
        table = measurements.parse(rows, "t")
        with pytest.raises(InputError, match="does not name its collective") as caught:
            calibration.run_of(table, platform("dgx-a100"))
        assert caught.value.problems[0].accepted == "--collective KIND"
        assert calibration.run_of(table, platform("dgx-a100"), Given(kind="all-gather")).kind == "all-gather"

    def test_nvls_switched_off(self) -> None:
        table = replace(measurements.packaged("h100-8-nvls"), nvls=False)
        assert not calibration.run_of(table, platform("dgx-h100")).platform.nvls


class TestSolver:
    def test_a_parabola(self) -> None:
        found = minimise(lambda x: [x[0] - 3, 2 * (x[1] + 1)], [0.0, 0.0])
        assert found == pytest.approx([3.0, -1.0], abs=1e-6)

    def test_softening(self) -> None:
        assert soften(0.01, 0.5) == pytest.approx(0.01, rel=1e-3)
        assert soften(-100.0, 0.5) == pytest.approx(-10.0, rel=0.01)


def test_the_document_is_that_of_the_tables() -> None:
    """The rows of the four tables, recomputed; `python -m lab.validation` writes the whole."""
    text = VALIDATION.read_text(encoding="utf-8")
    for name in FOUR:
        row = next(line for line in text.splitlines() if line.startswith(f"| {name} |"))
        stated = [float(cell.strip(" %")) for cell in row.split("|")[3:9] if cell.strip() != "-"]
        held = validation.selected(name).held_out
        found = [held["chosen"], held["constants"], held["line"]]
        expected = [100 * v for e in found for v in (e.large, e.small) if v is not None]
        assert stated == pytest.approx(expected, abs=0.25)


def _within_targets(residuals: list[Residual]) -> bool:
    errors = calibration.errors_of(residuals)
    return (errors.large or 0) <= validation.TARGET_LARGE and (errors.small or 0) <= validation.TARGET_SMALL
