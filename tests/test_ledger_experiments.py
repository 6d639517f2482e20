"""One-factor experiments: their file, what they change, and that folded runs are confirmed."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import pytest

from support import fake_core
from support.command import Ended
from syncline.base.errors import InputError
from syncline.engine import runs as engine
from syncline.experiment import packaged as studies
from syncline.experiment.load import load_file
from syncline.studies.reproduction import confirm, experiments, fitted, ledger, sources
from syncline.studies.reproduction.experiments import Experiment
from syncline.studies.reproduction.runs import Run, Runs

Command = Callable[..., Ended]

LEGAL = """
[[experiment]]
id = "dimensions"
source = "tutorial"
shows = "Something."
explains = ["tutorial-asymmetric"]
study = "tutorial/torus"
variant = "4x4x4"
columns = [
  { heading = "sent per byte", claim = "tutorial-torus-volume", digits = 3 },
  { heading = "time", measure = "time", digits = 1 },
  { heading = "said", claim = "tutorial-asymmetric", note = true },
]
rows = [
  { label = "as studied" },
  { label = "half the links' rate", set = ["topology=Torus(4, 4, 4, rate=25GB/s, latency=500ns)"] },
]
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "experiments.toml"
    path.write_text(text)
    return path


def test_the_file_of_the_package_is_legal() -> None:
    found = experiments.load()
    assert {experiment.source for experiment in found} == set(sources.SOURCES)
    for experiment in found:
        assert len({column.heading for column in experiment.columns}) == len(experiment.columns)


def test_every_setting_of_the_package_changes_a_study_of_its_source() -> None:
    settings = {(e.source, setting) for e in experiments.load() for row in e.rows for setting in row.settings}
    variants = [Run(name, v.name) for name in studies.names() for v in load_file(*studies.find(name)).variants]

    def takes(run: Run, *settings: str) -> bool:
        changed = Runs().changed(settings)
        with suppress(InputError):
            changed.variant(run)
            return not changed.idle()
        return False

    for source, setting in sorted(settings):
        mine = (run for run in variants if run.study.startswith(f"{source}/"))
        named = (run for run in mine if f"variants.{run.variant}." in setting or not setting.startswith("variants."))
        # What the metric of a claim simulates on two servers may name GPUs of both.
        tries = ((run, set_before) for run in named for set_before in ([], ["topology=dgx1v(nodes=2)"]))
        assert any(takes(run, *before, setting) for run, before in tries), f"no variant of {source} takes {setting}"


@pytest.mark.parametrize(
    ("before", "after", "field", "message"),
    [
        ("[[experiment]]", "[[experiment", "", "at line 2"),
        ("[[experiment]]", "[[experiments]]", "experiments", "this key is not known"),
        ('shows = "Something."', "", "dimensions.shows", "Field required"),
        ('shows = "Something."', "shows = 3", "dimensions.shows", "valid string"),
        ('source = "tutorial"', 'source = "tutorials"', "dimensions.source", "there is no such source"),
        ('study = "tutorial/torus"', "", "dimensions.columns.1.measure", "say its study and variant"),
        ("tutorial-torus-volume", "tutorial-torus-volumes", "dimensions.columns.0.claim", "did you mean"),
        ('measure = "time"', 'measure = "tome"', "dimensions.columns.1.measure", "did you mean 'time'"),
        ('measure = "time", ', "", "dimensions.columns.1", "either a claim or a measure"),
        ('"topology=Torus(4, 4, 4, rate=25GB/s, latency=500ns)"', '"npu.bus"', "dimensions.rows.1.set.0", "PATH=VALUE"),
        ("digits = 3", "digit = 3", "dimensions.columns.0.digit", "Extra inputs"),
        ('explains = ["tutorial-asymmetric"]', 'explains = ["that"]', "dimensions.explains.0", "no claim is called"),
        (
            'explains = ["tutorial-asymmetric"]',
            'explains = ["tutorial-model-fit"]',
            "dimensions.explains.0",
            "no column has this claim's metric",
        ),
        (
            '{ label = "as studied" }',
            '{ label = "as studied", set = ["collective.inflight=3"] }',
            "dimensions.rows.0",
            "is what they are as studied",
        ),
    ],
)
def test_what_is_wrong_with_the_file_is_said(tmp_path: Path, before: str, after: str, field: str, message: str) -> None:
    assert before in LEGAL
    experiments.load(written(tmp_path, LEGAL))
    with pytest.raises(InputError) as error:
        experiments.load(written(tmp_path, LEGAL.replace(before, after, 1)))
    assert any(p.field == field and message in p.message for p in error.value.problems), error.value.problems
    assert all(problem.file == "experiments.toml" for problem in error.value.problems)


def test_two_experiments_of_a_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="another experiment is called this"):
        experiments.load(written(tmp_path, LEGAL + LEGAL))


def test_a_row_is_its_claims_and_measures_under_its_settings(tmp_path: Path) -> None:
    (experiment,) = experiments.load(written(tmp_path, LEGAL))
    table = experiments.table(experiment, Runs())
    (sent, time, said), (same, longer, otherwise) = table.cells
    torus = Run("tutorial/torus", "4x4x4", ("topology=Torus(4, 4, 4, rate=25GB/s, latency=500ns)",))
    assert longer.value == Runs().result(torus).summary["total_ps"] / 1e6
    assert isinstance(time.value, float)
    assert isinstance(longer.value, float)
    assert 1.9 < longer.value / time.value < 2.0  # twice, but for the latencies
    assert sent.value == [3.5, 4.25]
    # Every variant is on the row's torus, whatever the study says, and there all are alike.
    assert same.value == [4.5, 4.5]
    assert said.note != otherwise.note
    published = table.as_text()[-1]
    assert published == ["published", "3.500, 4.250", "", ""]
    assert [len(row) for row in table.as_text()] == [4, 4, 4]


def test_a_change_of_one_variant_leaves_the_others_alone() -> None:
    runs = Runs()
    changed = runs.changed(["variants.1x8x8.workload.size=1MiB", "collective.inflight=3"])
    sizes = {name: changed.variant(Run("tutorial/torus", name)).experiment for name in ("1x8x8", "4x4x4")}
    assert {name: e.collective.inflight for name, e in sizes.items()} == {"1x8x8": 3, "4x4x4": 3}
    assert {name: e.model_dump()["workload"]["size"] for name, e in sizes.items()} == {
        "1x8x8": "1MiB",
        "4x4x4": "64MiB",
    }
    assert changed.idle() == []
    assert runs.variant(Run("tutorial/torus", "4x4x4")).experiment.collective.inflight == 16


def test_a_change_goes_before_what_the_claim_sets_itself() -> None:
    changed = Runs().changed(["workload.size=1MiB"])
    found = changed.variant(Run("tutorial/torus", "4x4x4", ("workload.size=2MiB",)))
    assert found.experiment.model_dump()["workload"]["size"] == "1MiB"


def test_settings_that_change_nothing_are_refused(tmp_path: Path) -> None:
    text = LEGAL.replace('"topology=', '"variants.4x4x5.topology=')
    (experiment,) = experiments.load(written(tmp_path, text))
    with pytest.raises(InputError, match=r"dimensions\.rows\.1\.set: nothing that the columns measure"):
        experiments.table(experiment, Runs())


def test_experiments_come_with_the_claims_that_they_explain_or_measure(syncline_command: Command) -> None:
    ended = syncline_command("reproduce", "ace-fig4b-dlrm", "--experiments", "--json")
    document = json.loads(ended.out)
    (experiment,) = document["experiments"]
    assert (ended.status, experiment["id"]) == (0, "ace-fig4b-sms")
    assert experiment["rows"][0]["values"][0] == document["claims"][0]["simulated"]
    (explanation,) = experiment["explanations"]
    (row,) = [row for row in experiment["rows"] if row["label"] == explanation["row"]]
    least, most = document["claims"][0]["accept"]
    assert explanation == {**explanation, "claim": "ace-fig4b-dlrm", "share": 1, "inside": True}
    assert least <= row["values"][0] <= most
    assert "confirmed_unfolded" not in document
    assert "experiments" not in json.loads(syncline_command("reproduce", "ace-fig4b-dlrm", "--json").out)
    shown = syncline_command("reproduce", "tutorial", "--experiments").out
    assert "tutorial-dimensions: A dimension more" in shown
    assert "ace-fig4b-sms" not in shown


def test_fitted_constants_are_those_of_the_studies() -> None:
    found = {(c.path, study): c for source in sources.SOURCES for c in fitted.constants(source) for study in c.studies}
    assert found["training.compute_scale", "ace/resnet50"].value == "0.065"
    assert found["collective.chunk", "ace1/gnmt"].value == "128KiB"
    assert {c.fitted_on for c in found.values()} <= {claim.id for claim in ledger.claims()}
    declared = 0
    for name in studies.names():
        for path in load_file(*studies.find(name)).variants[0].experiment.calibration:
            declared += (path, name) in found
    assert declared == len(found)


class TestConfirmation:
    def test_every_study_of_the_ledger_has_a_point(self) -> None:
        """The others are examples, or for figures: no claim and no experiment runs them."""
        examples = {"ace/placement", "ace/resnet50-astra", "blink/broadcast"}
        wired = {"blink/allocations", "blink/links", "blink/servers"}
        assert sorted(point.study for point in confirm.POINTS) == sorted(set(studies.names()) - examples - wired)
        for name in wired:  # what is on parts of machines is not folded
            for variant in load_file(*studies.find(name)).variants:
                assert engine.preview(variant).unfolded is not None
        named = {e.run(row, column).study for e in experiments.load() for row in e.rows for column in e.columns}
        assert not named & examples

    def test_every_point_is_folded_and_its_other_run_is_not(self) -> None:
        runs = Runs()
        for point in confirm.POINTS:
            assert engine.preview(runs.variant(point)).unfolded is None
            unfolded = Run(point.study, point.variant, (*point.settings, confirm.UNFOLDED))
            assert engine.preview(runs.variant(unfolded)).unfolded is not None

    def test_points_that_take_no_time_are_equal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        quick = [p for p in confirm.POINTS if p.study.startswith("tutorial/") or p.study == "ace/contention"]
        monkeypatch.setattr(confirm, "POINTS", quick)
        found = confirm.comparisons(Runs())
        assert [c.equal for c in found] == [True] * 4
        assert all(c.simulated_npus < c.npus for c in found)
        assert confirm.differences(found) == []

    def test_a_difference_is_named_and_makes_the_exit_status_1(
        self, syncline_command: Command, fake_engine: ModuleType, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def slower(spec: str, monitor: object = None) -> dict[str, object]:
            result = fake_core.run(spec)
            described = json.loads(spec)
            if described["fold"] == "off" and described["job"].get("bytes") == 12_000_000:
                summary = json.loads(str(result["summary"]))
                summary["total_ps"] += 1
                result["summary"] = json.dumps(summary)
            return result

        monkeypatch.setattr(fake_engine, "run", slower)
        claims = [c for c in ledger.claims() if c.source == "tutorial"]
        monkeypatch.setattr(ledger, "claims", lambda: claims)
        ended = syncline_command("reproduce", "--json")
        confirmed = json.loads(ended.out)["confirmed_unfolded"]
        assert ended.status == 1
        assert ended.err == "tutorial/six-phase All-reduce on 2x2x3: folded and unfolded runs differ in total time\n"
        assert [c["study"] for c in confirmed if not c["equal"]] == ["tutorial/six-phase"]
        assert len(confirmed) == len(confirm.POINTS)
        shown = syncline_command("reproduce")
        assert shown.status == 1
        assert "DIFFERENT: total time" in shown.out
        assert shown.out.count("equal") == len(confirm.POINTS) - 1


def test_an_experiment_measures_the_simulation_that_is_named_nearest() -> None:
    experiment = Experiment.model_validate(
        {
            "id": "x",
            "source": "ace",
            "shows": "x",
            "study": "ace/dlrm",
            "variant": "ACE",
            "columns": [{"heading": "a", "measure": "time"}, {"heading": "b", "measure": "time", "variant": "Ideal"}],
            "rows": [{"label": "x"}, {"label": "y", "study": "ace/gnmt", "variant": "BaselineCompOpt"}],
        }
    )
    runs = [experiment.run(row, column) for row in experiment.rows for column in experiment.columns]
    assert [(run.study, run.variant) for run in runs] == [
        ("ace/dlrm", "ACE"),
        ("ace/dlrm", "Ideal"),
        ("ace/gnmt", "BaselineCompOpt"),
        ("ace/gnmt", "Ideal"),
    ]
