"""The contract of the command line, with an engine that takes no time."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import pytest
from syrupy.assertion import SnapshotAssertion

import syncline
from support import fake_core, schemas
from support.command import Ended
from support.experiments import SMALL, THREE_SYSTEMS
from syncline.base.errors import InputError
from syncline.commands.cli import options
from syncline.engine import runner
from syncline.sections.endpoints import ENDPOINTS
from syncline.sections.networks import NETWORKS

Command = Callable[..., Ended]


@pytest.fixture
def three(tmp_path: Path) -> str:
    """An experiment file with three variants."""
    path = tmp_path / "three.yaml"
    path.write_text(THREE_SYSTEMS)
    return str(path)


@pytest.mark.usefixtures("fake_engine")
class TestRun:
    def test_json_is_one_document_and_nothing_else(self, syncline_command: Command, three: str) -> None:
        ended = syncline_command("run", three, "--json")
        document = json.loads(ended.out)
        assert (ended.status, ended.err) == (0, "")
        assert list(document)[:7] == [
            *("schema_version", "version", "status", "seed", "assumptions", "warnings", "fidelity"),
        ]
        assert document["status"] == "complete"
        assert [r["name"] for r in document["runs"]] == ["SMs", "Engine", "Ideal"]
        assert set(document["cost"]) == {"wall_time_s", "cpu_time_s", "peak_rss_bytes", "events", "packet_hops"}
        run = document["runs"][0]
        assert run["iteration_time_s"] == run["total_time_s"] / 2
        assert run["total_time_s"] == pytest.approx(run["compute_time_s"] + run["exposed_comm_s"])
        network = run["network"]
        assert network["achieved_bandwidth_bytes_per_s"] == network["bytes_sent_per_npu"] / run["total_time_s"]
        assert {"retransmissions", "rto_events", "drops", "mean_link_utilisation"} <= set(network)

    def test_two_runs_are_equal_outside_cost(self, syncline_command: Command, three: str) -> None:
        documents = [json.loads(syncline_command("run", three, "--json", "--threads", t).out) for t in ("1", "3")]
        for document in documents:
            document.pop("cost")
        assert json.dumps(documents[0]) == json.dumps(documents[1])

    def test_the_table(self, syncline_command: Command, three: str, snapshot: SnapshotAssertion) -> None:
        ended = syncline_command("run", three)
        assert ended.out == snapshot

    def test_assumptions_are_listed(self, syncline_command: Command, three: str) -> None:
        ended = syncline_command("run", three, "-v")
        assert "assumed: training.tail = stop (default)" in ended.err
        assert "assumed: endpoint.sram = 4MiB (default) (Engine)" in ended.err

    def test_flags_hold_for_every_variant(self, syncline_command: Command, three: str) -> None:
        ended = syncline_command(
            *(
                "run",
                three,
                "--json",
                "--backend",
                "analytical",
                "--chunk",
                "1MiB",
                "--inflight",
                "2",
                "--algorithm",
                "ring",
            )
        )
        assert json.loads(ended.out)["fidelity"]["backend"] == "analytical"

    def test_a_failing_variant_leaves_the_others(
        self,
        syncline_command: Command,
        three: str,
        fake_engine: ModuleType,
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
    ) -> None:
        def fail(spec: str, monitor: object = None) -> dict[str, Any]:
            if json.loads(spec)["endpoint"]["kind"] == "ace":
                raise fake_core.SimulationError("NPU 3 waits for a slot")
            return fake_core.run(spec)

        monkeypatch.setattr(fake_engine, "run", fail)
        ended = syncline_command("run", three, "--json", "--out", str(tmp_path / "run"))
        document = json.loads(ended.out)
        assert ended.status == 1
        assert "Engine: the simulation failed: NPU 3 waits for a slot" in ended.err
        assert document["status"] == "partial"
        assert document["failed"] == [{"name": "Engine", "message": "NPU 3 waits for a slot"}]
        assert [r["name"] for r in document["runs"]] == ["SMs", "Ideal"]
        assert json.loads((tmp_path / "run/manifest.json").read_text())["variants"] == ["SMs", "Ideal"]

    def test_what_the_engine_refuses_is_wrong_input(
        self, syncline_command: Command, three: str, fake_engine: ModuleType, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(_: str, monitor: object = None) -> dict[str, Any]:
            raise fake_core.refused("", "the SRAM does not hold a chunk")

        monkeypatch.setattr(fake_engine, "run", refuse)
        ended = syncline_command("run", three, "--json")
        assert (ended.status, ended.out) == (2, "")
        messages = [error["message"] for error in json.loads(ended.err)["errors"]]
        assert messages == [f"the SRAM does not hold a chunk (variant {name})" for name in ("SMs", "Engine", "Ideal")]

    def test_a_refusal_says_where_and_leaves_standard_output_empty(
        self,
        syncline_command: Command,
        three: str,
        fake_engine: ModuleType,
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
    ) -> None:
        def refuse(spec: str, monitor: object = None) -> dict[str, Any]:
            if json.loads(spec)["endpoint"]["kind"] == "ace":
                raise fake_core.refused("endpoint.sram_bytes", "ACE SRAM of 3 B: too small", least=5)
            return fake_core.run(spec)

        monkeypatch.setattr(fake_engine, "run", refuse)
        ended = syncline_command("run", three, "--json", "--out", str(tmp_path / "run"))
        assert (ended.status, ended.out) == (2, "")
        assert json.loads(ended.err)["errors"] == [
            {
                "file": three,
                "line": 9,
                "field": "variants.1.endpoint.sram",
                "value": None,
                "message": "ACE SRAM of 3 B: too small (variant Engine)",
                "accepted": "at least 5B",
            }
        ]
        assert json.loads((tmp_path / "run/summary.json").read_text())["status"] == "partial"

    def test_a_run_that_never_starts_leaves_no_directory(
        self, syncline_command: Command, three: str, fake_engine: ModuleType, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(_: str, monitor: object = None) -> dict[str, Any]:
            raise fake_core.refused("", "no")

        monkeypatch.setattr(fake_engine, "run", refuse)
        out = Path(three).parent / "run"
        assert syncline_command("run", three, "--out", str(out)).status == 2
        assert not out.exists()

    def test_a_panic_of_the_engine_is_a_failure(
        self,
        syncline_command: Command,
        three: str,
        fake_engine: ModuleType,
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
    ) -> None:
        class PanicException(BaseException):
            pass

        def panic(_: str, monitor: object = None) -> dict[str, Any]:
            raise PanicException("index out of bounds")

        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # where what was to be simulated is kept
        monkeypatch.setattr(fake_engine, "run", panic)
        ended = syncline_command("run", three)
        assert ended.status == 1
        assert "index out of bounds" in ended.err
        assert "Traceback" not in ended.err

    def test_errors_of_flags_settings_and_file_come_together(self, syncline_command: Command, three: str) -> None:
        arguments = ("--fold", "often", "--threads", "0", "--seed", "-1", "--set", "x", "--chunk", "3")
        errors = json.loads(syncline_command("run", three, *arguments, "--json").err)["errors"]
        fields = {"fold", "--threads", "--seed", "", "collective.chunk"}
        assert {error["field"] for error in errors} == fields

    @pytest.mark.parametrize("name", ["x" * 300, "out\udcff", "--quiet"])
    def test_a_directory_that_cannot_be(self, syncline_command: Command, three: str, name: str) -> None:
        ended = syncline_command("run", three, "--out", name)
        assert (ended.status, ended.out) == (2, "")
        assert "command line: directory: " in ended.err

    def test_interruption_keeps_what_is_finished(
        self, syncline_command: Command, three: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        finished: list[str] = []

        def interrupt(self: object, name: str) -> None:
            finished.append(name)
            if len(finished) == 2:
                raise KeyboardInterrupt

        monkeypatch.setattr(runner.Progress, "finished", interrupt)
        out = tmp_path / "run"
        ended = syncline_command("run", three, "--json", "--threads", "1", "--out", str(out))
        assert ended.status == 130
        assert json.loads(ended.out)["status"] == "partial"
        assert json.loads((out / "manifest.json").read_text())["status"] == "partial"
        assert [r["name"] for r in json.loads((out / "summary.json").read_text())["runs"]] == ["SMs"]
        assert (out / "SMs/tables/layers.parquet").is_file()


class TestWrongInput:
    @pytest.mark.parametrize(
        "arguments",
        [
            ("run",),
            ("run", "--bogus"),
            ("bogus",),
            ("trees", "--machine"),
            ("collective", "all-reduce", "--size", "64MB", "--machine", "dgx1"),
            ("collective", "all-reduce", "--size", "64MB", "--machine", "Ring(4)"),
            ("collective", "all-reduce", "--size", "64MB", "--machine", "dgx1v", "--topology", "Ring(4)"),
            ("collective", "all-reduce", "--size", "64MB", "--topology-file", "nowhere.xml"),
            ("collective", "all-reduce", "--size", "64MB", "--machine", "dgx1v", "--gpus", "0,8"),
            ("collective", "all-reduce", "--size", "64MB", "--machine", "dgx1v", "--gpus", "0", "--group", "1"),
            ("collective", "all-reduce", "--size", "64MB", "--topology", "Ring(4)", "--gpus", "0-1"),
            ("collective", "all-reduce", "--size", "64MB", "--topology", "Ring(4)", "--group", "0,1", "--group", "1,2"),
            ("collective", "all-reduce", "--size", "64MB", "--topology", "Ring(4)", "--group", "0-1;2"),
            ("collective", "all-reduce", "--size", "64MB", "--topology", "Ring(6)", "--group", "size 4"),
            ("collective", "broadcast", "--size", "64MB", "--topology", "Ring(4)", "--root", "4"),
            ("collective", "broadcast", "--size", "64MB", "--topology", "Ring(4)", "--group", "0-1", "--root", "2"),
            ("collective", "all-reduce", "--size", "64MB", "--topology", "Ring(4)", "--root", "0"),
            ("collective", "all-reduce", "--size", "64MB", "--topology", "Ring(4)", "--padding", "some"),
            ("collective", "all-rduce", "--size", "64MB", "--topology", "Ring(4)"),
            ("run", "nowhere.yaml"),
            ("run", "ace/resnet5"),
            ("run", "ace/resnet50", "--quiet", "-v"),
            ("bench", "all-reduce", "--machine", "dgx1v", "--verbose", "-q"),
            ("run", "ace/resnet50", "--threads", "0"),
            ("run", "ace/resnet50", "--threads", "many"),
            ("run", "ace/resnet50", "--seed", "-1"),
            ("run", "ace/resnet50", "--fold", "sometimes"),
            ("run", "ace/resnet50", "--endpoint", "acee"),
            ("run", "ace/resnet50", "--backend", "ethernets"),
            ("run", "ace/resnet50", "--algorithm", "packed-trees"),
            ("run", "ace/resnet50", "--chunk", "64"),
            ("run", "ace/resnet50", "--inflight", "0"),
            ("run", "ace/resnet50", "--set", "x"),
            ("check", "ace/resnet50", "--set", "training.iteration=3"),
            ("collective", "all-to-all", "--size", "64", "--topology", "Switch(4)", "--endpoint", "aec"),
            ("collective", "all-reduce", "--size", "64MB"),
            ("collective", "all-reduce", "--size", "64MB", "--topology", "Ring(4)", "--algorithm", "tree"),
            ("topology", "show", "Ring(0)"),
            ("topology",),
            ("report", "nowhere"),
            ("reproduce", "ac"),
            ("reproduce", "pink"),
        ],
        ids=" ".join,
    )
    def test_is_one_object_on_standard_error(
        self, syncline_command: Command, arguments: tuple[str, ...], snapshot: SnapshotAssertion
    ) -> None:
        text = syncline_command(*arguments)
        assert (text.status, text.out) == (2, "")
        assert text.err == snapshot
        if arguments[0] in ("run", "check", "collective", "reproduce"):
            ended = syncline_command(*arguments, "--json")
            assert (ended.status, ended.out) == (2, "")
            for error in json.loads(ended.err)["errors"]:
                assert set(error) == {"file", "line", "field", "value", "message", "accepted"}

    def test_every_error_at_once(self, syncline_command: Command, tmp_path: Path) -> None:
        path = tmp_path / "bad.yaml"
        path.write_text(SMALL + "npu: {sms: 0}\nnetwork: flwo\nvariants: [{name: a/b}, {name: B, endpoint: acee}]\n")
        errors = json.loads(syncline_command("run", str(path), "--json").err)["errors"]
        assert [(e["line"], e["field"]) for e in errors] == [
            (4, "npu.sms"),
            (5, "network"),
            (6, "variants.0.name"),
            (6, "variants.1.endpoint"),
        ]


@pytest.mark.usefixtures("fake_engine")
class TestCollective:
    def collective(self, command: Command, *arguments: str) -> dict[str, Any]:
        ended = command("collective", *arguments, "--json")
        assert (ended.status, ended.err) == (0, "")
        document: dict[str, Any] = json.loads(ended.out)
        return document

    def test_terms_of_nccl_tests(self, syncline_command: Command) -> None:
        document = self.collective(syncline_command, "all-reduce", "--size", "64MB", "--topology", "Torus(4,4)")
        assert document["size_bytes"] == 64_000_000
        algorithm = document["algorithm_bandwidth_bytes_per_s"]
        assert algorithm == 64e6 / document["time_s"]
        assert document["bus_bandwidth_bytes_per_s"] == pytest.approx(algorithm * 2 * 15 / 16)
        assert document["lower_bound_s"] == pytest.approx(2 * 15 / 16 * 64e6 / 200e9)
        assert document["lower_bound_by"]
        assert document["efficiency"] == document["lower_bound_s"] / document["time_s"]
        assert document["fidelity"]["backend"] == "flow"

    @pytest.mark.parametrize("kind", ["reduce-scatter", "all-gather"])
    def test_halves_of_an_all_reduce(self, syncline_command: Command, kind: str) -> None:
        document = self.collective(syncline_command, kind, "--size", "64MB", "--topology", "Ring(8)")
        algorithm = document["algorithm_bandwidth_bytes_per_s"]
        assert document["bus_bandwidth_bytes_per_s"] == pytest.approx(algorithm * 7 / 8)

    def test_one_npu_and_nothing_to_send_take_no_time(self, syncline_command: Command) -> None:
        for arguments in (("--size", "64MB", "--topology", "Ring(1)"), ("--size", "0B", "--topology", "Ring(4)")):
            document = self.collective(syncline_command, "all-reduce", *arguments)
            assert (document["time_s"], document["lower_bound_s"], document["efficiency"]) == (0, 0, None)
            assert document["bus_bandwidth_bytes_per_s"] is None

    @pytest.mark.parametrize("endpoint", ["ideal", "baseline", "ace"])
    def test_what_an_endpoint_brings_is_listed(
        self, syncline_command: Command, endpoint: str, snapshot: SnapshotAssertion
    ) -> None:
        arguments = ("all-reduce", "--size", "64MB", "--topology", "Torus(4,4,4)", "--endpoint", endpoint)
        assert self.collective(syncline_command, *arguments)["assumptions"] == snapshot

    @pytest.mark.parametrize(
        ("topology", "algorithm", "assumed"),
        [
            ("Ring(4)", "auto", "collective.algorithm = six-phase (auto: "),
            ("Torus(4,4)", "auto", "collective.algorithm = six-phase (auto: "),
            ("Ring(4)", "ring-unidirectional", "collective.lanes = one (ring-unidirectional)"),
        ],
    )
    def test_algorithms_that_stand_for_others(
        self, syncline_command: Command, topology: str, algorithm: str, assumed: str
    ) -> None:
        arguments = ("all-reduce", "--size", "64MB", "--topology", topology, "--algorithm", algorithm)
        said = [
            a for a in self.collective(syncline_command, *arguments)["assumptions"] if "algorithm" in a or "one" in a
        ]
        assert [a for a in said if a.startswith(assumed)]
        assert not [a for a in said if "collective.lanes = split" in a or ("default" in a and "algorithm" in a)]

    def test_what_auto_chose_and_why(self, syncline_command: Command) -> None:
        arguments = ("all-reduce", "--size", "64MB", "--topology", "Torus(4,4)")
        document = self.collective(syncline_command, *arguments)
        choice = document["algorithm_choice"]
        assert document["algorithm"] == choice["chosen"] == "six-phase"
        assert "against" in choice["because"]
        times = {c["algorithm"]: c.get("predicted_time_s") for c in choice["candidates"]}
        assert times["six-phase"] == document["time_s"] == min(t for t in times.values() if t is not None)
        refused = {c["algorithm"]: c["refused"] for c in choice["candidates"] if "refused" in c}
        assert refused == {name: f"there is no {name}" for name in fake_core.UNKNOWN}
        assert "algorithm_choice" not in self.collective(syncline_command, *arguments, "--algorithm", "ring")
        assert "auto chose six-phase: " in syncline_command("collective", *arguments).out

    def test_run_and_check_say_what_auto_chose_for_whom(self, syncline_command: Command, three: str) -> None:
        for command in ("run", "check"):
            ended = syncline_command(command, three, "--algorithm", "auto")
            assert [line.partition(": ")[0] for line in ended.out.splitlines() if "auto chose" in line] == [
                "SMs",
                "Engine",
                "Ideal",
            ]

    def test_groups_and_machines(self, syncline_command: Command) -> None:
        arguments = (
            "all-gather",
            "--size",
            "8MB",
            "--machine",
            "dgx-a100(nodes=2)",
            "--group",
            "0-7",
            "--group",
            "8-15",
        )
        document = self.collective(syncline_command, *arguments)
        assert (document["npus"], document["ranks"], document["groups"]) == (16, 8, ["0-7", "8-15"])
        algorithm = document["algorithm_bandwidth_bytes_per_s"]
        assert document["bus_bandwidth_bytes_per_s"] == pytest.approx(algorithm * 7 / 8)
        assert document["fidelity"] == {
            "backend": "flow",
            "folded": False,
            "simulated_npus": 16,
            "unfolded_because": "NPUs differ",
            "transfer": "messages",
        }
        assert "all-gather of 2 groups of 8 NPUs each" in syncline_command("collective", *arguments).out

    def test_the_table(self, syncline_command: Command, snapshot: SnapshotAssertion) -> None:
        ended = syncline_command("collective", "all-reduce", "--size", "64MB", "--topology", "Torus(4,4)")
        assert ended.out == snapshot


@pytest.mark.usefixtures("fake_engine")
class TestOtherCommands:
    def test_check(self, syncline_command: Command, three: str, snapshot: SnapshotAssertion) -> None:
        ended = syncline_command("check", three)
        assert ended.status == 0
        assert ended.out == snapshot

    def test_topology_show(self, syncline_command: Command, snapshot: SnapshotAssertion) -> None:
        arguments = ("topology", "show", "Ring(4, rate=200GB/s, efficiency=94%)_Torus(8,4)")
        assert syncline_command(*arguments).out == snapshot
        assert json.loads(syncline_command(*arguments, "--json").out)["npus"] == 128

    def test_schema(self, syncline_command: Command) -> None:
        assert "variants" in json.loads(syncline_command("schema").out)["properties"]

    def test_version(self, syncline_command: Command) -> None:
        assert syncline_command("--version").out.strip() == syncline.__version__

    @pytest.mark.parametrize(
        "command",
        [
            "",
            "run",
            "check",
            "collective",
            "reproduce",
            "report",
            "schema",
            "topology",
            "topology show",
            "topology detect",
        ],
    )
    def test_help_leads_with_examples(self, syncline_command: Command, command: str) -> None:
        ended = syncline_command(*command.split(), "--help")
        example = f"  syncline {command or 'run ace/resnet50'}"
        assert ended.out.index(example) < ended.out.index("Options")


def test_help_names_every_backend_and_endpoint() -> None:
    """It does not import them, which would take too long."""
    for hint, known in ((options.Backend, NETWORKS), (options.Endpoint, ENDPOINTS)):
        (option,) = get_args(hint)[1:]
        assert set(option.metavar.split("|")) == set(known)


def test_help_imports_nothing_heavy() -> None:
    heavy = "[m for m in ('pyarrow', 'plotly', 'yaml') if m in sys.modules]"
    code = f"import sys, syncline.commands.cli as c; c.run(['--help']); print({heavy})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


class TestGivenTwice:
    """A field that is set and has a flag of its own is given once."""

    @pytest.mark.parametrize(
        ("setting", "flag"),
        [
            ("collective.algorithm=ring", ("--algorithm", "direct")),
            ("collective.chunk=64KiB", ("--chunk", "64KiB")),
            ("collective.inflight=4", ("--inflight", "8")),
            ("collective.padding=none", ("--padding", "equal")),
            ("network=flow", ("--backend", "packet")),
            ("network.backend=flow", ("--backend", "packet")),
            ("endpoint=ideal", ("--endpoint", "ace")),
            ("fold=on", ("--fold", "off")),
        ],
    )
    def test_by_set_and_by_a_flag(
        self, syncline_command: Command, tmp_path: Path, setting: str, flag: tuple[str, str]
    ) -> None:
        file = tmp_path / "one.yaml"
        file.write_text('name: one\ntopology: "Ring(4)"\nworkload: {collective: all-reduce, size: 64KiB}\n')
        single = ("collective", "all-reduce", "--topology", "Ring(4)", "--size", "64KiB")
        for command in (("run", str(file)), ("check", str(file)), single):
            ended = syncline_command(*command, "--set", setting, *flag)
            assert ended.status == 2
            assert f"this is given twice, by --set and by {flag[0]}" in ended.err

    def test_by_set_and_by_an_argument(self) -> None:
        with pytest.raises(InputError, match="this is given twice, by set and by algorithm"):
            syncline.collective(
                "all-reduce", "64KiB", topology="Ring(4)", algorithm="direct", set={"collective.algorithm": "ring"}
            )

    def test_what_an_endpoint_brings_can_be_set(self, syncline_command: Command, tmp_path: Path) -> None:
        file = tmp_path / "one.yaml"
        file.write_text('name: one\ntopology: "Ring(4)"\nworkload: {collective: all-reduce, size: 64KiB}\n')
        ended = syncline_command("run", str(file), "--endpoint", "ace", "--set", "endpoint.fsms=3", "--json", "-q")
        assert "endpoint.fsms = 3" in ended.out or '"fsms": 3' in ended.out


def test_a_full_disk_behind_standard_output_is_named(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "syncline", "list", "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (1, "standard output cannot be written: No space left on device\n")


def test_errors_say_their_version_and_groups_of_a_divided_training_what_to_do(
    syncline_command: Command, tmp_path: Path
) -> None:
    file = tmp_path / "divided.yaml"
    file.write_text(
        'name: divided\ntopology: dgx-a100\ngroups: "0,1;2,3"\n'
        "workload: {model: gpt2, parameters: {vocabulary: 50304}, global_batch: 8}\n"
    )
    written = json.loads(syncline_command("run", str(file), "--json").err)
    assert written["version"] == syncline.__version__
    assert not schemas.problems("errors", written)
    (error,) = written["errors"]
    assert (error["field"], error["accepted"]) == (
        "groups",
        "leave groups out; gpus says which of a machine's train",
    )
