"""Plans of files in the place of algorithms: in experiments, on the command line, in sweeps and in run directories."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support import plans, registry
from support.command import Ended
from support.schedules import RING4, edit_step
from syncline.base import document
from syncline.base.errors import InputError
from syncline.engine import assumptions, completing
from syncline.experiment.load import Study, load
from syncline.experiment.merge import parse_override
from syncline.plans import msccl_xml, plan, ring
from syncline.results import rundir
from syncline.studies.sweeps import file, points

Command = Callable[..., Ended]

ONE = "name: one\ntopology: {fabric}\nworkload: {{collective: {kind}, size: 1MB}}\ncollective: {{plan: {file}}}\n"
TRAINING = "name: t\ntopology: Ring(4)\nworkload: {model: dlrm, batch: 64}\ntraining: {iterations: 1}\nnetwork: flow\n"
LINKS = """\
nodes: [A, B, C, D, {name: S, kind: switch}]
defaults: {rate: 25GB/s, latency: 1us}
links: [{from: A, to: S}, {from: B, to: S}, {from: C, to: S}, {from: D, to: S}, {from: A, to: B, class: NVLink}]
"""
EXCHANGE = (Path(__file__).parents[1] / "examples/plans/exchange.json").read_text()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where all plans are."""
    monkeypatch.chdir(tmp_path)
    for name, (_, _, write) in plans.PLANS.items():
        (tmp_path / f"{name}.xml").write_text(write())
    (tmp_path / "ring4.xml").write_text(RING4)
    (tmp_path / "ring5.json").write_text(plan.dumps(ring.all_reduce(5)))
    (tmp_path / "exchange.json").write_text(EXCHANGE)
    (tmp_path / "links.yaml").write_text(LINKS)
    return tmp_path


def read(text: str, *settings: str) -> Study:
    overrides = [parse_override(setting) for setting in settings]
    return load(document.read(text, "file.yaml"), "file.yaml", Path(), overrides)


def complaints(text: str, *settings: str) -> list[str]:
    with pytest.raises(InputError) as error:
        read(text, *settings)
    return [str(problem) for problem in error.value.problems]


def one(file: str, kind: str = "all-reduce", fabric: str = "Ring(4)") -> str:
    return ONE.format(file=file, kind=kind, fabric=fabric)


def of(command: Command, *line: str) -> dict[str, Any]:
    ended = command("collective", *line, "--json")
    assert ended.status == 0, ended.err
    found: dict[str, Any] = json.loads(ended.out)
    return found


PLACES = (
    ["--topology", "Ring(4)"],
    ["--topology", "Switch(4)"],
    ["--topology", "FullyConnected(2)_Ring(2)"],
    ["--machine", "dgx1v", "--gpus", "0-3"],
    ["--machine", "dgx-a100(nodes=2)", "--gpus", "0,1,8,9"],
    ["--topology-file", "links.yaml"],
    ["--topology", "Ring(8)", "--group", "stride 2"],
)


@pytest.mark.parametrize("backend", registry.BACKENDS)
@pytest.mark.parametrize("name", [name for name, (_, ranks, _) in plans.PLANS.items() if ranks == 4])
def test_schedules_of_other_tools_run_everywhere(name: str, backend: str, syncline_command: Command) -> None:
    kind = plans.PLANS[name][0]
    assert syncline_command("verify", f"{name}.xml").status == 0
    for place in PLACES:
        for endpoint in ("ideal", "baseline"):
            line = [kind, "--size", "256KiB", *place, "--plan", f"{name}.xml"]
            found = of(syncline_command, *line, "--backend", backend, "--endpoint", endpoint)
            assert found["algorithm"] == "plan made by hand"
            assert found["time_s"] > 0
            assert backend not in registry.WITH_CONTENTION or found["efficiency"] <= 1.0001
            assert not any(line.startswith("collective.algorithm") for line in found["assumptions"])


def test_what_plans_cost_is_what_they_send(syncline_command: Command) -> None:
    """Everybody sends all of its vector to everybody: three times what a rank has, over one link."""
    line = ["all-reduce", "--size", "64MiB", "--topology", "Switch(4, rate=25GB/s, latency=1ns, efficiency=100%)"]
    found = of(syncline_command, *line, "--plan", "all-reduce.xml", "--backend", "flow")
    assert found["network"]["bytes_sent_per_npu"] == 3 * 64 * 2**20
    assert found["time_s"] == pytest.approx(3 * 64 * 2**20 / 25e9, rel=1e-3)


def test_loops_may_overlap(syncline_command: Command) -> None:
    line = ["all-reduce", "--size", "8MiB", "--topology", "Switch(4)", "--plan", "ring4.xml", "--chunk", "64KiB"]
    one, many = (of(syncline_command, *line, "--inflight", n)["time_s"] for n in ("1", "8"))
    assert many < 0.8 * one


class TestCommandLine:
    def test_tables_name_the_plan(self, syncline_command: Command) -> None:
        line = ["collective", "all-reduce", "--size", "1MB", "--topology", "Ring(4)", "--plan"]
        ended = syncline_command(*line, "ring4.xml")
        assert ended.status == 0
        assert "plan ring-allreduce-4" in ended.out
        Path("nameless.xml").write_text(RING4.replace('name="ring-allreduce-4"', 'name=""'))
        assert "plan nameless.xml" in syncline_command(*line, "nameless.xml").out
        assert syncline_command(*line, "examples/plans/ring4.xml").status == 0

    def test_a_plan_is_an_algorithm(self, syncline_command: Command) -> None:
        line = ["all-reduce", "--size", "1MB", "--topology", "Ring(4)", "--plan", "ring4.xml", "--algorithm", "ring"]
        ended = syncline_command("collective", *line)
        assert (ended.status, ended.out) == (2, "")
        assert "--algorithm: the algorithm is given twice, by --plan and by --algorithm" in ended.err

    def test_the_root_is_that_of_the_plan(self, syncline_command: Command) -> None:
        line = ["broadcast", "--size", "1MB", "--topology", "Ring(4)", "--plan", "broadcast.xml"]
        found = of(syncline_command, *line)
        assert found["root"] == 1
        assert "workload.root = 1 (that of the plan made by hand)" in found["assumptions"]
        assert of(syncline_command, *line, "--root", "1")["root"] == 1
        ended = syncline_command("collective", *line, "--root", "0")
        assert ended.status == 2
        assert "the root is rank 0, but that of the plan broadcast.xml is rank 1" in ended.err

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            (["--plan", "nothing.xml"], "there is no such file"),
            (["--plan", "links.yaml"], "links.yaml:1: this is not a schedule"),
            (["--plan", "broadcast.xml"], "broadcast.xml is a plan for broadcast, of which the run has none"),
            (["--plan", "ring5.json"], "ring5.json: the plan is for 5 ranks"),
            (["--plan", "exchange.json"], "exchange.json is a plan for all-gather, of which the run has none"),
        ],
    )
    def test_what_cannot_be(self, line: list[str], message: str, syncline_command: Command) -> None:
        ended = syncline_command("collective", "all-reduce", "--size", "1MB", "--topology", "Ring(4)", *line)
        assert (ended.status, ended.out) == (2, "")
        assert message in ended.err
        assert "accepted: " in ended.err

    def test_everything_that_is_wrong_is_said(self, syncline_command: Command) -> None:
        text = edit_step(edit_step(RING4, (3, 0, 6), dstoff=8), (0, 1, 0), srcoff=9)
        Path("broken.xml").write_text(text)
        line = ["all-reduce", "--size", "1MB", "--topology", "Ring(4)", "--plan", "broken.xml"]
        ended = syncline_command("collective", *line)
        assert ended.status == 2
        lines = [1 + next(i for i, row in enumerate(text.splitlines()) if f'off="{n}"' in row) for n in (9, 8)]
        for number, place in zip(
            lines, ("rank 0, thread block 1, step 0", "rank 3, thread block 0, step 6"), strict=True
        ):
            assert f"broken.xml:{number}: {place}: " in ended.err
        assert ended.err.endswith("2 errors\n")

    def test_findings_without_end_are_counted(self, syncline_command: Command) -> None:
        Path("broken.xml").write_text(RING4.replace('cnt="1"', 'cnt="9"'))
        line = ["all-reduce", "--size", "1MB", "--topology", "Ring(4)", "--plan", "broken.xml"]
        ended = syncline_command("collective", *line)
        assert ended.status == 2
        message = "findings, of which the first 20 are listed: syncline verify lists all"
        assert ended.err.startswith("broken.xml: there are ")
        assert message in ended.err.splitlines()[0]


class TestExperiments:
    def test_variants_have_plans_of_their_own(self) -> None:
        text = one("ring4.xml") + (
            "variants:\n  - {name: A}\n  - {name: B, collective: {plan: all-reduce.xml}}\n"
            "  - {name: C, collective: {plan: null, algorithm: ring}}\n"
        )
        named = [[plan.name for plan in variant.experiment.collective.plan] for variant in read(text).variants]
        assert named == [["ring-allreduce-4"], ["made by hand"], []]

    def test_settings_and_several_kinds(self) -> None:
        study = read(TRAINING, 'collective.plan=["ring4.xml", "all-to-all.xml"]')
        (variant,) = study.variants
        told = completing.specification(variant.experiment)["collectives"]["plans"]
        assert [set(entry) for entry in told] == [{"schedule", "root"}] * 2
        assert not any(line.startswith("collective.algorithm") for line in assumptions.of([variant]))
        (half,) = read(TRAINING, "collective.plan=ring4.xml", "collective.algorithm=auto").variants
        assert half.experiment.has_open_algorithms
        assert half.experiment.followers == ["all-to-all"]

    def test_nothing_is_chosen_where_all_is_planned(self) -> None:
        (variant,) = read(one("ring4.xml"), "collective.algorithm=auto").variants
        assert not variant.experiment.has_open_algorithms
        assert (
            "collective.algorithm = auto has no effect: plans take the place of algorithms for all collectives of "
            "the run" in assumptions.of([variant])
        )
        (variant,) = read(one("ring4.xml")).variants
        assert not any("collective.algorithm" in line for line in assumptions.of([variant]))

    def test_what_has_no_plan_is_chosen(self, folder: Path, syncline_command: Command) -> None:
        (folder / "t.yaml").write_text(f"{TRAINING}collective: {{plan: ring4.xml, algorithm: auto, chunk: 4MiB}}\n")
        ended = syncline_command("run", "t.yaml", "--json")
        assert ended.status == 0, ended.err
        (run,) = json.loads(ended.out)["runs"]
        assert run["algorithm"] == f"plan ring-allreduce-4, {run['algorithm_choice']['chosen']}"
        refused = [entry for entry in run["algorithm_choice"]["candidates"] if "refused" in entry]
        assert "double-binary-tree" in {entry["algorithm"] for entry in refused}  # there is none for an all-to-all

    def test_paths_are_relative_to_the_file(self, folder: Path, syncline_command: Command) -> None:
        (folder / "below/plans").mkdir(parents=True)
        (folder / "ring4.xml").rename(folder / "below/plans/ring4.xml")
        (folder / "below/e.yaml").write_text(one("plans/ring4.xml"))
        assert syncline_command("check", "below/e.yaml").status == 0
        assert syncline_command("check", "below/e.yaml", "--set", "collective.plan=ring5.json").status == 2
        assert syncline_command("check", "below/e.yaml", "--set", "collective.plan=all-reduce.xml").status == 0

    @pytest.mark.parametrize(
        ("more", "message"),
        [
            (["collective.plan=7"], "collective.plan: this names no files"),
            (["collective.plan=[ring4.xml, 7]"], "collective.plan: this names no files"),
            (["collective.plan={file: ring4.xml}"], "collective.plan: this names no files"),
            (["collective.plan=gone.xml"], "collective.plan: there is no such file"),
            (
                ["collective.plan=[ring4.xml, all-reduce.xml]"],
                "all-reduce.xml and ring4.xml are both plans for all-reduce",
            ),
            (["collective.plan=[ring4.xml, broadcast.xml]"], "broadcast.xml is a plan for broadcast, of which the run"),
            (
                ["collective.algorithms={all-reduce: ring}"],
                "collective.algorithms.all-reduce: this has no effect: the plan ring4.xml takes the place",
            ),
            (
                ["collective.algorithms={all-reduce: auto}"],
                "collective.algorithms.all-reduce: this has no effect: the plan ring4.xml takes the place",
            ),
            (["collective.per_dimension=[ring]"], "collective.per_dimension: this has no effect"),
        ],
    )
    def test_what_is_wrong(self, more: list[str], message: str) -> None:
        said = complaints(one("ring4.xml"), *more)
        assert any(message in text for text in said), said
        assert all("accepted: " in text for text in said)

    def test_a_wrong_plan_is_told_beside_other_mistakes(self) -> None:
        Path("broken.xml").write_text(edit_step(RING4, (3, 0, 6), dstoff=8))
        said = complaints(one("broken.xml") + "npu: {sms: x}\n")
        assert any("broken.xml:" in text for text in said)
        assert any("npu.sms" in text for text in said)

    def test_of_roots_both_numbers_are_told(self) -> None:
        said = complaints(one("broadcast.xml", "broadcast"), "workload.root=3")
        assert said == [
            "--set: workload.root: the root is rank 3, but that of the plan broadcast.xml is rank 1\n"
            "    accepted: 1, or no value"
        ]

    def test_warnings_of_a_plan_are_those_of_the_study(self) -> None:
        Path("odd.xml").write_text(
            RING4.replace('ngpus="4"', 'ngpus="4" ngpsu="4"').replace('nchannels="2"', 'nchannels="1"')
        )
        warnings = read(one("odd.xml")).warnings
        assert [warning.split(": ", 1)[1][:30] for warning in warnings] == [
            "algo: the attribute 'ngpsu' is",
            "1 channels are stated, 2 are u",
        ]


class TestResults:
    def test_a_directory_holds_its_plans(self, folder: Path, syncline_command: Command) -> None:
        (folder / "e.yaml").write_text(one("ring4.xml"))
        assert syncline_command("run", "e.yaml", "--out", "first").status == 0
        (copy,) = (folder / "first/inputs").iterdir()
        assert copy.read_text() == RING4
        again = syncline_command("run", "first/experiment.resolved.yaml", "--json")
        first = json.loads((folder / "first/summary.json").read_text())
        assert json.loads(again.out)["runs"][0]["time_s"] == first["runs"][0]["time_s"]
        assert first["runs"][0]["algorithm"] == "plan ring-allreduce-4"

    def test_the_content_tells_experiments_apart(self) -> None:
        hashes = []
        for text in (RING4, RING4.replace('proto="Simple"', 'proto="LL"')):
            Path("same.xml").write_text(text)
            hashes.append(rundir.config_hash(read(one("same.xml"))))
        assert hashes[0] != hashes[1]

    def test_an_axis_of_a_sweep(self, folder: Path, syncline_command: Command) -> None:
        (folder / "below").mkdir()
        for name in ("ring4.xml", "all-reduce.xml"):
            (folder / name).rename(folder / "below" / name)
        (folder / "e.yaml").write_text("name: e\ntopology: Ring(4)\nworkload: {collective: all-reduce, size: 1MB}\n")
        axis = "axes: {collective.plan: [ring4.xml, all-reduce.xml]}"
        (folder / "below/s.sweep.yaml").write_text(f"name: s\nbase: ../e.yaml\n{axis}\n")
        ended = syncline_command("sweep", "below/s.sweep.yaml", "--json", "--threads", "1")
        assert ended.status == 0, ended.err
        rows = json.loads(ended.out)["rows"]
        assert [row["algorithm"] for row in rows] == ["plan ring-allreduce-4", "plan made by hand"]
        assert [row["collective.plan"] for row in rows] == ["ring4.xml", "all-reduce.xml"]
        keys = [s.key for s in points.simulations(file.load(Path("below/s.sweep.yaml"), "s"))[0]]
        (folder / "below/ring4.xml").write_text(RING4.replace('proto="Simple"', 'proto="LL"'))
        after = [s.key for s in points.simulations(file.load(Path("below/s.sweep.yaml"), "s"))[0]]
        assert keys[0] != after[0]
        assert keys[1] == after[1]


def test_schedules_and_their_json_run_alike(syncline_command: Command) -> None:
    for name, (kind, ranks, write) in plans.PLANS.items():
        as_json = json.dumps(msccl_xml.read(write(), name).plan)
        Path("same.json").write_text(as_json)
        line = [kind, "--size", "1MB", "--topology", f"Switch({ranks})", "--backend", "flow"]
        found = [of(syncline_command, *line, "--plan", file) for file in (f"{name}.xml", "same.json")]
        for each in found:
            del each["cost"]
        assert found[0] == found[1]


class TestPlansOfAlgorithms:
    """Version 2 of the JSON."""

    WAYS = (Path(__file__).parents[1] / "examples/plans/dgx1-ways.json").read_text()
    LINE = ("broadcast", "--size", "6MB", "--machine", "dgx1v", "--backend", "flow")

    def test_ways(self, syncline_command: Command) -> None:
        def time(name: str, text: str) -> float:
            Path(name).write_text(text)
            assert syncline_command("verify", name).status == 0
            return float(of(syncline_command, *self.LINE, "--gpus", "0,3", "--plan", name)["time_s"])

        over_pcie = 2e6 / 13.12e9
        three = time("three.json", self.WAYS)
        assert three == pytest.approx(over_pcie, rel=0.05)
        assert time("class.json", self.WAYS.replace('{"over": "PCIe"}', '{"choice": 65280}')) == three
        second = self.WAYS.replace('{"over": "PCIe"}', '{"choice": 1}')  # of two NVLinks, which are as good
        assert time("choice.json", second) == time("second.json", self.WAYS.replace('{"over": "PCIe"}', '{"link": 1}'))
        one_link = self.WAYS.replace('{"link": 1}', '{"link": 0}').replace('{"over": "PCIe"}', '{"link": 0}')
        assert time("link.json", one_link) == pytest.approx(6e6 / 25e9, rel=0.05)

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ('{"over": "PCIe"}', '{"over": "Ether"}', "the fabric has no choice of links of class 'Ether'"),
            ('{"link": 1}', '{"link": 2}', "there is no link 2 from GPU 0 to GPU 3"),
            ('"block": 2, "to"', '"block": 3, "to"', "ways.json:16: programs.0.ranks.0.2.0.steps.0.block: "),
            ('"op": "r", "block": 1', '"op": "r", "block": 0', "ways.json:20: phase 0, rank 1, thread 1, step 0: "),
            ('"grid": [2]', '"grid": [3]', "ways.json:12: programs.0.ranks: the steps of 2 ranks are written"),
            ('"version": 2', '"version": 3', "ways.json:3: version: this version of the format is not known"),
            ('"blocks": 3,', '"blocks": 3, "colour": 1,', "ways.json:11: unknown field `colour`"),
            ('"op": "r", "block": 2', '"op": "re", "block": 2', "ways.json:21: programs.0.ranks.1.2.0.steps.0.from: "),
        ],
    )
    def test_what_is_wrong_has_a_place(self, old: str, new: str, message: str, syncline_command: Command) -> None:
        assert old in self.WAYS
        Path("ways.json").write_text(self.WAYS.replace(old, new, 1))
        ended = syncline_command("collective", *self.LINE, "--gpus", "0,3", "--plan", "ways.json")
        assert (ended.status, ended.out) == (2, "")
        assert message in ended.err, ended.err

    def test_a_grid_needs_its_shape(self, syncline_command: Command) -> None:
        line = ["export", "all-reduce", "--algorithm", "six-phase", "--ranks", "2x3", "-o", "grid.json"]
        assert syncline_command(*line).status == 0
        plan = ["--size", "1MB", "--plan", "grid.json"]
        assert of(syncline_command, "all-reduce", "--topology", "Ring(2)_Ring(3)", *plan)["time_s"] > 0
        assert of(syncline_command, "all-reduce", "--topology", "Switch(2)_FullyConnected(3)", *plan)["time_s"] > 0
        ended = syncline_command("collective", "all-reduce", "--topology", "Ring(6)", *plan)
        assert ended.status == 2
        assert "grid.json: the plan is for 2x3 ranks" in ended.err

    def test_a_finding_in_a_phase_leads_to_its_program(self, syncline_command: Command) -> None:
        line = ["export", "all-reduce", "--algorithm", "six-phase", "--ranks", "3x4"]
        plan = json.loads(syncline_command(*line).out)
        step = plan["programs"][1]["ranks"][0][0][0]["steps"][-1]
        step["block"] = (step.get("block", 0) + 1) % 4
        text = json.dumps(plan, indent=1)
        Path("broken.json").write_text(text)
        document = json.loads(syncline_command("verify", "broken.json", "--json").out)
        found = [*document["errors"], *document["flaws"]]
        assert found
        assert found[0]["phase"] == 1
        lines = text.splitlines()
        begin = next(i for i, row in enumerate(lines) if '"dim": 1' in row)
        assert begin < found[0]["line"] - 1 < next(i for i, row in enumerate(lines) if '"allgather"' in row)
