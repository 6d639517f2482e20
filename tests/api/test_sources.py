"""What an experiment may be given as, and how it is said that something is wrong with it."""

from __future__ import annotations

import subprocess
import sys
from collections import UserString
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import syncline
from lab.reference import typed
from syncline.base import document

SMALL: dict[str, Any] = {"topology": "Ring(4)", "workload": {"collective": "all-reduce", "size": "64KiB"}}


def complaints(source: Any, **arguments: Any) -> list[str]:
    """What is wrong, each with its place and without what is accepted."""
    try:
        syncline.load(source, **arguments)
    except syncline.InputError as error:
        return [str(problem).partition("\n    accepted:")[0] for problem in error.problems]
    return []


class TestMappings:
    def test_values_as_python_has_them(self) -> None:
        plain = syncline.load(SMALL | {"output": {"trace_npus": [0, 1], "trace_limit": 7}}).resolved()
        npus = (np.int64(0), 1)
        assert syncline.load(SMALL | {"output": {"trace_npus": npus, "trace_limit": np.int32(7)}}).resolved() == plain
        assert plain["variants"][0]["output"]["trace_limit"] == 7

    def test_a_name(self) -> None:
        assert syncline.load(SMALL).name == "experiment"
        assert syncline.load(SMALL | {"name": "mine"}).name == "mine"
        (found,) = complaints(SMALL | {"name": 5})
        assert found.startswith("experiment: name: ")

    def test_paths_start_where_the_process_is(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "links.yaml").write_text("links: [{from: npu 0, to: npu 1, rate: 1GB/s}]\n")
        experiment = SMALL | {"topology": {"file": Path("links.yaml")}}
        assert any("links.yaml" in each for each in complaints(experiment))
        monkeypatch.chdir(tmp_path)
        assert not any("no such file" in each.lower() for each in complaints(experiment))

    @pytest.mark.parametrize(
        ("changed", "said"),
        [
            ({5: 6}, "experiment: a key must be text\n    given: 5"),
            ({"": 6}, "experiment: a key must be text\n    given: ''"),
            ({"npu": {None: 1}}, "experiment: npu: a key must be text\n    given: None"),
            ({"npu": {"sms": float("nan")}}, "experiment: npu.sms: this is not a finite number\n    given: nan"),
            ({"npu": {"sms": Fraction(10**400)}}, "experiment: npu.sms: this is not a finite number"),
            ({"npu": {"sms": 10**40}}, "experiment: npu.sms: this number has more than 30 digits"),
            ({"npu": {"sms": {80}}}, "experiment: npu.sms: a value of the type set cannot be written in a file"),
            ({"npu": {"sms": b"80"}}, "experiment: npu.sms: a value of the type bytes cannot be written in a file"),
            ({"npu": {"sms": UserString("8")}}, "a value of the type UserString cannot be written in a file"),
            ({"description": "\ud800"}, "experiment: description: this is not legal text: half a character"),
            ({"output": {"trace_npus": [0, None]}}, "experiment: output.trace_npus.1"),
            (
                {"variants": [{"name": "x"}, {"name": "X"}]},
                "experiment: variants.1.name: this name is already used, by variants.0.name",
            ),
        ],
    )
    def test_what_no_file_could_say(self, changed: dict[Any, Any], said: str) -> None:
        (found,) = complaints(SMALL | changed)
        assert said in found

    def test_mappings_within_each_other_without_end(self) -> None:
        endless: dict[str, Any] = dict(SMALL)
        endless["npu"] = endless
        (found,) = complaints(endless)
        assert "nested deeper than 24 levels" in found

    def test_more_values_than_a_file_has(self) -> None:
        many: Any = ["x"] * 100
        for _ in range(8):
            many = [many] * 100
        (found,) = complaints(SMALL | {"gpus": many})
        assert f"there are more than {document.MAX_VALUES} values" in found

    def test_every_problem_at_once(self) -> None:
        found = complaints(SMALL | {"topology": "Ring(x)", "npu": {"sms": -1}}, set={"fold": "maybe"}, baseline="none")
        assert len(found) >= 3
        assert {each.partition(":")[0] for each in found} == {"experiment", "argument set"}


class TestArguments:
    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            ({"seed": -1}, "arguments: seed: this is out of range"),
            ({"seed": "1"}, "arguments: seed: this is not a whole number"),
            ({"threads": 0}, "arguments: threads: this is out of range"),
            ({"threads": True}, "arguments: threads: this is not a whole number"),
            ({"memory_limit": "3"}, "arguments: memory_limit: the unit is missing"),
            ({"memory_limit": 3}, "arguments: memory_limit: this is less than any simulation needs"),
            ({"set": ["fold=on"]}, "arguments: set: this is not a mapping"),
            ({"set": {"a..b": 1}}, "arguments: set: this is not the path of a field"),
            ({"set": {3: 1}}, "arguments: set: this is not the path of a field"),
            ({"set": {"npu.sms": {1}}}, "argument set: npu.sms: a value of the type set"),
            ({"set": {"npu.smss": 1}}, "argument set: npu.smss: this key is not known"),
            ({"endpoint": "acee"}, "argument endpoint: endpoint.kind: this is not a known kind; did you mean 'ace'?"),
            ({"endpoint": 3}, "argument endpoint: endpoint.kind"),
            ({"backend": "flows"}, "argument backend: network.backend"),
            ({"chunk": "64"}, "argument chunk: collective.chunk: the unit is missing"),
            ({"baseline": "other"}, "arguments: baseline: there is no such variant"),
            ({"errors": "ignore"}, "arguments: errors: this is not known"),
            ({"out": "/dev/null"}, "arguments: out: this exists and is not a directory"),
        ],
    )
    @pytest.mark.usefixtures("fake_engine")
    def test_that_are_wrong(self, arguments: dict[str, Any], said: str) -> None:
        with pytest.raises(syncline.InputError) as caught:
            syncline.run(SMALL, **arguments)
        assert said in str(caught.value)
        assert "--" not in str(caught.value)

    @pytest.mark.parametrize(
        ("source", "said"),
        [
            ("ace/resnet", "arguments: source: there is no such file and no study of this name; did you mean"),
            ("ace/fig11", "arguments: source: this is a figure"),
            ("-", "arguments: source: standard input is read by the command line only"),
            (b"ace/resnet50", "arguments: source: an experiment cannot be given as bytes"),
            (None, "arguments: source: an experiment cannot be given as NoneType"),
            ([SMALL], "arguments: source: an experiment cannot be given as list"),
            ({"base": "x", "axes": {}}, "this is a sweep"),
        ],
    )
    def test_sources_that_are_none(self, source: Any, said: str) -> None:
        with pytest.raises(syncline.InputError) as caught:
            syncline.load(source)
        assert said in str(caught.value)

    @pytest.mark.usefixtures("fake_engine")
    def test_a_loaded_study_is_run_as_it_is(self) -> None:
        study = syncline.load(SMALL, set={"workload.size": "1MiB"})
        assert syncline.run(study).systems["experiment"].size_bytes == 2**20
        with pytest.raises(syncline.InputError, match="a study that has been loaded cannot be changed"):
            syncline.run(study, set={"workload.size": "2MiB"})


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["Ring(4)", "64KiB", "all-reduce", "ace", "flow", "auto", "on", "1GB/s"])
    | st.text(max_size=8)
    | st.binary(max_size=2),
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(st.text(max_size=4) | st.sampled_from(["kind", "backend", "size", "chunk", "dims"]), below)
        | st.sets(st.integers(), max_size=2)
        | st.tuples(below, below)
    ),
    max_leaves=6,
)
SECTIONS = st.sampled_from(sorted(syncline.Experiment.__init__.__annotations__)) | st.text(max_size=3)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(SECTIONS | st.integers(), VALUES, max_size=3))
def test_whatever_is_given_is_legal_or_refused(fake_engine: ModuleType, given: dict[Any, Any]) -> None:
    try:
        study = syncline.load({**SMALL, **given})
    except syncline.InputError as error:
        assert error.problems
        assert all(problem.message and problem.file for problem in error.problems)
    else:
        assert study.variants


class TestTypes:
    def test_are_those_of_the_schema(self) -> None:
        """`python -m lab.reference.typed` prints the module as it is, once it is laid out."""
        laid_out = subprocess.run(
            [sys.executable, "-m", "ruff", "format", "--stdin-filename", "experiment.py", "-"],
            input=typed.module(),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        module = sys.modules[syncline.Experiment.__module__]
        assert Path(module.__file__ or "").read_text() == laid_out

    def test_an_experiment_says_what_is_given(self) -> None:
        experiment = syncline.Experiment("mine", topology="Ring(4)", network={"backend": "flow"})
        assert experiment.as_mapping() == {"name": "mine", "topology": "Ring(4)", "network": {"backend": "flow"}}
        assert experiment == syncline.Experiment(name="mine", topology="Ring(4)", network={"backend": "flow"})
        assert experiment != syncline.Experiment(name="mine")
        assert eval(repr(experiment), {"Experiment": syncline.Experiment}) == experiment
        with pytest.raises(TypeError, match="fabric"):
            syncline.Experiment("mine", fabric="Ring(4)")  # type: ignore[call-arg]

    @pytest.mark.parametrize("function", ["load", "check", "run"])
    def test_what_has_to_be_given_is_missed_when_it_is_used(self, function: str) -> None:
        experiment = syncline.Experiment("mine")
        with pytest.raises(syncline.InputError) as caught:
            getattr(syncline, function)(experiment)
        missing = [(problem.field, problem.message) for problem in caught.value.problems]
        assert missing == [("topology", "this is missing"), ("workload", "this is missing")]

    def test_what_a_checker_says(self) -> None:
        """A legal example passes; each line marked as wrong is an error, and nothing else is."""
        example = Path(__file__).with_name("example_of_types.py")
        lines = example.read_text().splitlines()
        wrong = [number for number, line in enumerate(lines, 1) if line.endswith("# wrong")]
        command = [sys.executable, "-m", "mypy", "--no-error-summary", str(example)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=example.parents[2])
        found = [int(line.split(":")[1]) for line in ended.stdout.splitlines() if ": error:" in line]
        assert sorted(set(found)) == wrong, ended.stdout + ended.stderr


def test_importing_is_cheap() -> None:
    """The names are there, and none of what they need is imported before one is asked for."""
    script = (
        "import sys, syncline; heavy = {'pydantic', 'pyarrow', 'yaml', 'numpy', 'typer', 'syncline.engine.runs'};"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules);"
        "assert all(getattr(syncline, name) for name in syncline.__all__); assert dir(syncline) == syncline.__all__"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
