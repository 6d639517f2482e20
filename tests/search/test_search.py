"""`syncline search`: candidates, the winner, tables and pages, mistakes, interruptions, and Ray."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pyarrow.parquet as pq
import pytest
import yaml

from support.command import Ended
from syncline.base.errors import InputError, SimulationFailedError
from syncline.engine import runs as engine
from syncline.experiment.load import Variant
from syncline.experiment.merge import parse_override
from syncline.sections.parallel import USUAL_ORDER
from syncline.studies.searches import file, run, space
from syncline.studies.searches.predict import Predicted
from syncline.studies.sweeps import pool, remote
from syncline.studies.sweeps.journal import Entry
from syncline.studies.sweeps.work import WorkerDiedError

Command = Callable[..., Ended]

SEARCH = """\
name: gpt
topology: dgx-a100(nodes=2)
workload:
  model: gpt2
  parameters: {layers: 4, hidden: 256, heads: 4, vocabulary: 1024, positions: 128}
  global_batch: 32
collective: {chunks: 2, algorithm: ring}
network: flow
endpoint: ideal
"""
AXES = "search: {tensor: [1, 2, 4], pipeline: auto, micro_batch: [1, 2], recompute: [none, full], zero: [1]}\n"
FEW = "search: {tensor: [1, 2], pipeline: [1, 2], simulate: 2}\n"
PATIENCE_S = 120


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a search file with a section `search`."""

    def write(section: str) -> Path:
        path = tmp_path / "gpt.yaml"
        path.write_text(SEARCH + section)
        return path

    return write


def load(path: Path) -> file.Search:
    return file.load_file(path, path.name)


def one_more(variant: Variant) -> int:
    """Picoseconds of one more iteration; of the only one where all are alike."""
    summary = engine.run(variant).summary
    return round(float(summary["steady"]["iteration_ps"] if summary["steady"] else summary["total_ps"]))


def test_combinations_that_are_no_division_are_counted_and_explained(
    written: Callable[[str], Path], syncline_command: Command
) -> None:
    path = written("search: {tensor: [1, 2, 4], simulate: 1}\n")
    setting = "workload.parameters.vocabulary=1022"
    found = space.candidates(file.load_file(path, path.name, [parse_override(setting)]))
    assert (found.combinations, found.illegal) == (3, 1)
    assert found.reason == "table: vocabulary 1022 cannot be divided by 4 (tensor parallelism)"
    ended = syncline_command("search", str(path), "--set", setting)
    assert f"1 of 3 combinations are no division of this training; of most: {found.reason}" in ended.err
    assert "no division" not in syncline_command("search", str(path)).err


def test_the_winner_is_that_of_exhaustive_simulation(written: Callable[[str], Path]) -> None:
    path = written(AXES.replace("}\n", ", simulate: all}\n"))
    described = load(path)
    found = run.predicted(described, space.candidates(described))
    run.simulate(found, None, 1, quiet=True)
    assert 24 <= len(found.findings) <= 60
    assert found.open == 0
    excluded = [finding for finding in found.findings if finding.excluded]
    assert excluded  # the bounds spare simulations
    every = {f.candidate.number: one_more(f.candidate.variant()) for f in found.findings}
    assert found.best is not None
    assert found.best.candidate.number == min(every, key=lambda number: (every[number], number))
    for finding in found.findings:
        if finding.seconds is not None:
            assert round(finding.seconds * 1e12) == every[finding.candidate.number]


def test_only_a_bound_excludes_a_candidate(written: Callable[[str], Path]) -> None:
    """An estimate above the best time proves nothing; a bound that equals it does."""
    described = load(written("search: {tensor: [1, 2, 4], pipeline: [1, 2]}\n"))
    found = run.predicted(described, space.candidates(described))
    best, *others = found.findings
    best.entry = Entry("done", None, {"iteration_time_s": 1.0})
    bounds = [0.9, 1.0, 1.1, 0.999]
    for finding, bound in zip(others, bounds, strict=False):
        finding.predicted = Predicted(round(bound * engine.PS_PER_S), 2 * engine.PS_PER_S)
    found.exclude()
    assert [finding.excluded for finding in others[:4]] == [bound >= 1 for bound in bounds]
    assert not best.excluded
    open_still = [f for f in others if f.status == "estimated"]
    assert found.open == len(open_still) >= 2


def test_candidates_are_ranked_by_what_one_more_iteration_costs(tmp_path: Path, syncline_command: Command) -> None:
    """A first iteration with ZeRO 1 ends with a wait for weights that a further one hides."""
    path = tmp_path / "gpt.yaml"
    model = "{layers: 4, hidden: 1024, heads: 16, vocabulary: 1024, positions: 512}"
    changed = SEARCH.replace("{layers: 4, hidden: 256, heads: 4, vocabulary: 1024, positions: 128}", model)
    changed = changed.replace("nodes=2", "nodes=1").replace("global_batch: 32", "global_batch: 16")
    path.write_text(changed + "search: {tensor: [1], micro_batch: [2], zero: [3, 1], simulate: all}\n")
    rows = json.loads(syncline_command("search", str(path), "--json", "--threads", "1").out)["rows"]
    candidates = {candidate.parallel.zero: candidate for candidate in space.candidates(load(path)).candidates}
    assert [row["zero"] for row in rows] == [1, 3]
    for row in rows:
        assert round(row["iteration_time_s"] * 1e12) == one_more(candidates[row["zero"]].variant())


def test_what_says_nothing_is_no_candidate_of_its_own(written: Callable[[str], Path]) -> None:
    axes = "tensor: [1], pipeline: [1, 2], virtual: [1, 2], schedule: auto, sequence: auto, order: auto"
    found = space.candidates(load(written(f"search: {{{axes}}}\n")))
    assert found.combinations == 1 * 2 * 2 * 3 * 2 * 24
    kinds = [(c.parallel.pipeline, c.parallel.schedule, c.parallel.virtual) for c in found.candidates]
    assert sorted(set(kinds)) == [(1, "1f1b", 1), (2, "1f1b", 1), (2, "gpipe", 1), (2, "interleaved", 2)]
    orders = {tuple(c.parallel.order) for c in found.candidates if c.parallel.pipeline == 2}
    assert orders == {("data", "pipeline", "tensor", "context"), ("pipeline", "data", "tensor", "context")}
    assert len(found.candidates) == 1 + 3 * 2
    assert all(sorted(c.parallel.order) == sorted(USUAL_ORDER) for c in found.candidates)


@pytest.mark.parametrize(("context", "data", "different"), [(1, 1, 1), (2, 1, 4), (1, 2, 4), (2, 2, 4)])
def test_stages_of_zero_differ_where_weights_have_copies(
    context: int, data: int, different: int, written: Callable[[str], Path]
) -> None:
    """NPUs that share sequences have copies of the weights, as those of data parallelism have."""
    axes = f"tensor: [{16 // context // data}], context: [{context}], data: [{data}], zero: auto"
    shape = "workload.parameters={layers: 4, hidden: 256, heads: 16, vocabulary: 1024, positions: 128}"
    path = written(f"search: {{{axes}}}\n")
    found = space.candidates(file.load_file(path, path.name, [parse_override(shape)])).candidates
    assert [candidate.parallel.zero for candidate in found] == list(range(different))
    held = [candidate.needed.total - candidate.needed.exchange for candidate in found]
    assert held == sorted(set(held), reverse=True)  # each stage divides more among the copies


def test_what_does_not_fit_is_listed_with_its_terms(written: Callable[[str], Path], syncline_command: Command) -> None:
    path = written("search: {tensor: [1, 4], simulate: 5, memory: 45MB}\n")
    document = json.loads(syncline_command("search", str(path), "--json").out)
    by_tensor = {row["tensor"]: row for row in document["rows"]}
    assert by_tensor[1]["status"] == "too large"
    assert "optimiser 0.06 GB" in by_tensor[1]["reason"]
    assert "iteration_time_s" not in by_tensor[1]
    assert document["fitting"] == document["simulated"] == 1
    terms = ("weights", "gradients", "optimiser", "activations", "exchange", "libraries")
    for row in document["rows"]:
        assert row["memory_bytes"] == sum(row[f"{term}_bytes"] for term in terms)


def test_where_nothing_fits_the_least_is_said(written: Callable[[str], Path], syncline_command: Command) -> None:
    path = written("search: {tensor: [1, 4], simulate: 5, memory: 1MB}\n")
    ended = syncline_command("search", str(path), "--quiet")
    assert ended.status == 1
    assert ended.err.startswith("no candidate fits into memory; the least that one needs is 0.0")
    assert ended.err.endswith(", with tensor 4\n")


def test_tables_and_the_page(written: Callable[[str], Path], tmp_path: Path, syncline_command: Command) -> None:
    path = written(FEW)
    documents = []
    for suffix in ("parquet", "csv", "json"):
        out = tmp_path / f"t.{suffix}"
        ended = syncline_command("search", str(path), "--out", str(out), "--top", "2", "--threads", "1")
        assert ended.status == 0, ended.err
        assert "simulated" in ended.out
        documents.append(out)
        assert syncline_command("search", str(path), "--out", str(out), "--resume", "-q").status == 0
    table = pq.read_table(documents[0])
    assert table.column("rank").to_pylist() == [1, 2, None, None]
    assert json.loads(table.schema.metadata[b"syncline.search"])["axes"] == ["tensor", "pipeline"]
    rows = json.loads(documents[2].read_text())["rows"]
    assert [row["candidate"] for row in rows] == table.column("candidate").to_pylist()
    assert len(documents[1].read_text().splitlines()) == 5
    page = (tmp_path / "t.html").read_text()
    assert "Pareto front" in page
    assert "chart-memory" in page
    assert "chart-npus" not in page


def test_several_topologies_and_throughput_per_npu(written: Callable[[str], Path], syncline_command: Command) -> None:
    axes = "topology: [dgx-a100, dgx-a100(nodes=2)], tensor: [1], simulate: all"
    found = {}
    for objective in ("iteration_time", "throughput_per_npu"):
        path = written(f"search: {{{axes}, objective: {objective}}}\n")
        document = json.loads(syncline_command("search", str(path), "--json", "--threads", "1").out)
        assert document["simulated"] == 2
        found[objective] = document["rows"][0]["npus"]
    assert found == {"iteration_time": 16, "throughput_per_npu": 8}


@pytest.mark.parametrize(
    ("section", "field", "said"),
    [
        ("", "search", "this is missing"),
        ("search: 3\n", "search", "a mapping"),
        ("search: {}\n", "search", "nothing varies"),
        ("search: {tensr: [1]}\n", "search.tensr", "did you mean 'tensor'"),
        ("search: {tensor: 4}\n", "search.tensor", "auto, or a list"),
        ("search: {tensor: [0]}\n", "search.tensor.0", "numbers from 1 on"),
        ("search: {tensor: [2, 2]}\n", "search.tensor.1", "listed twice"),
        ("search: {zero: [4]}\n", "search.zero.0", "0, 1, 2, 3"),
        ("search: {order: [[tensor, data]]}\n", "search.order.0", "orders such as"),
        ("search: {algorithm: [rings]}\n", "search.algorithm.0", "ring"),
        ("search: {tensor: [1], simulate: 0}\n", "search.simulate", "or all"),
        ("search: {tensor: [1], objective: cost}\n", "search.objective", "iteration_time"),
        ("search: {tensor: [1], memory: much}\n", "search.memory", "size"),
        ("search: {tensor: [3]}\n", "parallel.tensor", "no combination is a division"),
        ("parallel: {tensor: x}\nsearch: {zero: [1]}\n", "parallel.tensor", "whole number"),
        ("variants: [{name: a}]\nsearch: {zero: [1]}\n", "variants", "one experiment"),
        ("npu: {gpux: 3}\nsearch: {zero: [1]}\n", "npu.gpux", "not known"),
    ],
)
def test_mistakes(
    written: Callable[[str], Path], syncline_command: Command, section: str, field: str, said: str
) -> None:
    ended = syncline_command("search", str(written(section)), "--json")
    assert ended.status == 2, ended.err
    problems = json.loads(ended.err)["errors"]
    assert [problem["field"] for problem in problems] == [field]
    assert said in ended.err


def test_what_is_no_search(written: Callable[[str], Path], syncline_command: Command, tmp_path: Path) -> None:
    path = written(FEW.replace("search:", "search: ") + "seeds: 3\n")
    assert syncline_command("search", str(path)).status == 2
    (tmp_path / "t.csv").write_text("mine")
    ended = syncline_command("search", str(written(FEW)), "--out", str(tmp_path / "t.csv"))
    assert ended.status == 2
    assert "not the table of a search" in ended.err
    assert syncline_command("search", str(written(FEW)), "--resume").status == 2
    path.write_text(SEARCH.replace("model: gpt2", "model: resnet50").replace("global_batch", "batch") + FEW)
    assert "workload" in syncline_command("search", str(path)).err


@pytest.mark.parametrize("command", ["run", "check", "fit"])
def test_other_commands_say_what_the_section_is_for(
    command: str, written: Callable[[str], Path], syncline_command: Command
) -> None:
    ended = syncline_command(command, str(written(FEW)))
    assert ended.status == 2
    assert "search: this section belongs to a search file, which `syncline search` reads" in ended.err


def test_files_follow_the_schema(written: Callable[[str], Path], syncline_command: Command) -> None:
    schema = json.loads(syncline_command("schema", "search").out)
    validator = jsonschema.Draft202012Validator(schema)
    for section in (AXES, FEW, "search: {order: auto, memory: 1GB, simulate: all}\n"):
        assert not list(validator.iter_errors(yaml.safe_load(written(section).read_text())))
    for section in ("", "search: {tensor: 4}\n", "search: {tensr: [1]}\n", "search: {zero: [4]}\n"):
        assert list(validator.iter_errors(yaml.safe_load(written(section).read_text())))


def _lines(out: Path) -> list[dict[str, Any]]:
    journal = out.with_name(f"{out.name}.journal")
    text = journal.read_text() if journal.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True)[1:] if line.endswith("\n")]


def _children(parent: int) -> list[int]:
    """The processes that work for another one."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
            command = (path.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if int(fields[1]) == parent and b"syncline.studies.sweeps.worker" in command:
            found.append(int(path.parent.name))
    return found


def test_a_killed_worker_and_a_killed_search_lose_nothing(
    written: Callable[[str], Path], tmp_path: Path, syncline_command: Command
) -> None:
    path = written("search: {tensor: [1, 2], pipeline: [1, 2], micro_batch: [1, 2], simulate: 8}\n")
    path.write_text(path.read_text().replace("network: flow", "network: flow\nfold: 'off'\ntraining: {iterations: 4}"))
    out = tmp_path / "t.parquet"
    command = [sys.executable, "-m", "syncline", "search", str(path), "--out", str(out), "--threads", "2"]
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    killed = False
    while len(_lines(out)) < 3:
        assert time.monotonic() < began + PATIENCE_S
        assert process.poll() is None
        if len(_lines(out)) >= 1 and not killed and (children := _children(process.pid)):
            os.kill(children[0], signal.SIGKILL)
            killed = True
        time.sleep(0.01)
    process.kill()
    process.communicate(timeout=PATIENCE_S)
    before = _lines(out)
    assert killed
    assert 3 <= len(before) < 8
    assert not out.exists()
    assert "--resume" in syncline_command("search", str(path), "--out", str(out)).err
    resumed = syncline_command("search", str(path), "--out", str(out), "--resume", "--json", "--threads", "1")
    assert resumed.status == 0, resumed.err
    after = _lines(out)
    assert after[: len(before)] == before
    keys = [line["key"] for line in after]
    document = json.loads(resumed.out)
    assert len(keys) == len(set(keys)) == document["simulated"] == 8


class _DiedError(Exception):
    """What the stand-in for Ray raises for a worker that died."""


class _TaskError(_DiedError):
    """The same for an error of the task itself."""


def _stand_in(dying: str) -> ModuleType:
    """A module with the part of Ray's interface that is used, which works in this process."""
    ray = ModuleType("ray")

    class Remote:
        def __init__(self, function: Callable[..., Any]) -> None:
            self.function = function

        def remote(self, *given: Any) -> Any:
            return lambda: self.function(*given)

    def init(address: str, **_: Any) -> None:
        if address == "nowhere:1":
            raise ConnectionError("nobody answers\nmore")

    def get(reference: Callable[[], Entry]) -> Entry:
        outcome = reference()
        if outcome.error == dying:
            raise _DiedError("it was killed")
        return outcome

    ray.init, ray.get = init, get  # type: ignore[attr-defined]
    ray.shutdown = lambda: None  # type: ignore[attr-defined]
    ray.cluster_resources = lambda: {"CPU": 2.0}  # type: ignore[attr-defined]
    ray.remote = lambda **_: Remote  # type: ignore[attr-defined]
    ray.wait = lambda references, num_returns: (references[:num_returns], references[num_returns:])  # type: ignore[attr-defined]
    ray.exceptions = ModuleType("ray.exceptions")  # type: ignore[attr-defined]
    ray.exceptions.RayError, ray.exceptions.RayTaskError = _DiedError, _TaskError
    return ray


def _said(text: str) -> Entry:
    return Entry("failed", text)


def test_ray_has_the_interface_of_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", _stand_in("3"))
    tasks = [(str(number), (str(number),)) for number in range(7)]
    there = dict(remote.carry_out(_said, tasks, "auto"))
    here = dict(pool.carry_out(_said, tasks, 1))
    assert isinstance(there.pop("3"), WorkerDiedError)
    assert there == {key: entry for key, entry in here.items() if key != "3"}
    with pytest.raises(SimulationFailedError, match=r"nowhere:1: the cluster cannot be reached: nobody answers$"):
        list(remote.carry_out(_said, tasks, "nowhere:1"))


def test_searches_and_sweeps_on_ray(
    written: Callable[[str], Path], tmp_path: Path, syncline_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(FEW)
    plain = json.loads(syncline_command("search", str(path), "--json", "--threads", "1").out)
    monkeypatch.setitem(sys.modules, "ray", _stand_in(""))
    monkeypatch.setattr(remote, "missing", lambda _: None)
    out = tmp_path / "t.json"
    ended = syncline_command("search", str(path), "--json", "--ray", "auto", "--out", str(out))
    assert ended.status == 0, ended.err
    assert {**json.loads(ended.out), "cost": 0} == {**plain, "cost": 0}
    assert len(_lines(out)) == 2
    sweep = tmp_path / "s.sweep.yaml"
    (tmp_path / "e.yaml").write_text(SEARCH)
    sweep.write_text("name: s\nbase: e.yaml\naxes: {parallel.tensor: [1, 2]}\n")
    ended = syncline_command("sweep", str(sweep), "--ray", "auto", "--out", str(tmp_path / "s.csv"))
    assert ended.status == 0, ended.err
    assert len(_lines(tmp_path / "s.csv")) == 2


def test_without_ray(
    monkeypatch: pytest.MonkeyPatch, written: Callable[[str], Path], syncline_command: Command
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    problem = remote.missing("auto")
    assert isinstance(problem, InputError)
    ended = syncline_command("search", str(written(FEW)), "--ray", "auto")
    assert ended.status == 2
    assert "pip install 'syncline[ray]'" in ended.err
    assert syncline_command("search", str(written(FEW)), "--ray", "").status == 2
