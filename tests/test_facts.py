"""What the engine says of itself, and that nobody says it again."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import pyarrow.parquet as pq
import pytest

from support import fake_core
from support.command import Ended
from support.experiments import study
from syncline.base import collective_names
from syncline.core import facts
from syncline.engine import completing
from syncline.experiment import programs, rules
from syncline.fabric import topology
from syncline.report import declared
from syncline.report.escape import html_text
from syncline.sections import algorithms, collective, workloads
from syncline.sections.compute import Compute
from syncline.sections.endpoints import ENDPOINTS, AceEndpoint, IdealEndpoint, StreamsEndpoint, Transit
from syncline.sections.networks import NETWORKS, PacketNetwork
from syncline.studies import columns

ROOT = Path(__file__).parents[1]
OF_ETHERNET = {"transport", "queues", "congestion", "completions", "slowdowns", "flows", "watched", "captures"}
"""Tables of a backend that the runs here do not have."""
DECLARED = (
    "crates/core/src/table.rs",
    "crates/network/src/ethernet/tables.rs",
    "crates/system/src/results.rs",
    "crates/system/src/tables/",
)
"""Where columns and fields are declared."""
UNITS = ("ps", "B", "count", "share", "ratio", "index", "text", "data", "truth value", "record")


def every_column() -> list[facts.Column]:
    return [column for table in facts.engine().tables.values() for column in table.columns.values()]


def every_field(fields: dict[str, facts.Field]) -> Iterator[facts.Field]:
    for field in fields.values():
        yield field
        yield from every_field(field.fields)


def everything() -> list[facts.Column | facts.Field]:
    return [*every_column(), *every_field(facts.engine().summary)]


def is_phrase(meaning: str) -> bool:
    """Whether a meaning can be read on its own: no code, and nothing that points to what stands before it."""
    plain = re.fullmatch(r"[A-Z][A-Za-z0-9_ ,;:.()'-]+\.", meaning) is not None and "  " not in meaning
    points_back = re.match(r"(The same|That|Those|It|This|Which|Its|Their)\b", meaning) is not None
    return plain and len(meaning.split()) > 2 and not points_back


def test_every_meaning_is_a_phrase() -> None:
    assert [one.name for one in everything() if not is_phrase(one.meaning)] == []
    assert [one.name for one in facts.engine().tables.values() if not is_phrase(one.meaning)] == []
    assert not any(map(is_phrase, ("the time of it.", "The same of links.", "Time", "Time of [`Steady`] passes.")))


def test_every_unit_is_known() -> None:
    assert {one.unit for one in everything()} <= set(UNITS)


def test_meanings_of_a_table_are_different() -> None:
    for table in facts.engine().tables.values():
        meanings = [column.meaning for column in table.columns.values()]
        assert sorted(set(meanings)) == sorted(meanings), table.name


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a run that fills every table."""
    folder = tmp_path_factory.mktemp("facts")
    (folder / "small.yaml").write_text(
        "name: small\ntopology: Ring(2)_Ring(2)\nworkload: {model: resnet18, batch: 1}\n"
        "endpoint: {kind: ace, comm_memory_bandwidth: 128GB/s}\noutput: {trace_npus: [0]}\n"
    )
    command = [sys.executable, "-m", "syncline", "run", "small.yaml", "--out", "run", "--json"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder / "run"


def test_files_say_what_their_columns_are(run: Path) -> None:
    files = {file.stem: file for file in run.rglob("*.parquet")}
    assert set(files) == set(facts.engine().tables) - OF_ETHERNET
    for table in (table for table in facts.engine().tables.values() if table.name not in OF_ETHERNET):
        schema = pq.read_schema(files[table.name])
        assert [c for c in table.columns if table.columns[c].always or c in schema.names] == schema.names
        for field in schema:
            column = table.columns[field.name]
            assert field.metadata == {b"unit": column.unit.encode(), b"meaning": column.meaning.encode()}


def test_the_report_says_what_columns_are(run: Path) -> None:
    page = (run / "report.html").read_text()
    for table in (table for table in facts.engine().tables.values() if table.name not in OF_ETHERNET):
        for column in table.columns.values():
            cells = (table.name, column.name, column.unit, column.meaning)
            assert re.search(r"\s*".join(f"<td[^>]*>{re.escape(html_text(cell))}</td>" for cell in cells), page), cells
    headings = re.findall(r'<button type="button" title="([^"]*)">', page)
    for name in ("layers", "collectives"):
        for column in declared.columns(name):
            assert any(heading.startswith(html_text(column.meaning)) for heading in headings), column.name


def test_a_sweep_says_what_its_columns_are(tmp_path: Path, syncline_command: Callable[..., Ended]) -> None:
    (tmp_path / "small.yaml").write_text(
        "name: small\ntopology: Ring(2)_Ring(2)\nworkload: {model: resnet18, batch: 1}\n"
        "endpoint: {kind: ace, comm_memory_bandwidth: 128GB/s}\n"
    )
    (tmp_path / "small.sweep.yaml").write_text(
        "name: small\nbase: small.yaml\naxes: {endpoint.sram: [4MiB, 8MiB], training.overlap: [true, false]}\n"
    )
    file = tmp_path / "small.parquet"
    assert syncline_command("sweep", str(tmp_path / "small.sweep.yaml"), "--out", str(file)).status == 0
    schema = pq.read_schema(file)
    said = {field.name: {k.decode(): v.decode() for k, v in (field.metadata or {}).items()} for field in schema}
    assert [name for name, says in said.items() if not says.get("unit") or not says.get("meaning")] == []
    assert said["endpoint.sram_bytes"]["unit"] == "B"
    assert said["compute_time_s"] == {"unit": "s", "meaning": facts.field("compute_ps").meaning}
    assert said["training.overlap"]["unit"] == "truth value"
    for name, says in said.items():
        ending = next((unit for ending, unit in columns.ENDINGS.items() if name.endswith(ending)), None)
        assert ending in (None, says["unit"]), name


def repeats(text: str, known: Iterable[facts.Column | facts.Field]) -> list[str]:
    """The columns of which a source says the unit, or the meaning, again."""
    units = "|".join(UNITS[:-1])
    said = {name for name, _ in re.findall(rf'"([a-z_0-9]+)"\s*[:,]\s*[\[({{]*"({units})"', text)}
    return sorted({one.name for one in known if one.name in said or one.meaning.removesuffix(".") in text})


def test_no_other_file_says_what_columns_are() -> None:
    # What two or three words say, others may say of something else.
    known = [one for one in everything() if one.unit != "record" and len(one.meaning.split()) > 5]
    files = [*ROOT.glob("python/**/*.py"), *ROOT.glob("crates/**/*.rs")]
    found = {
        name: repeated
        for file in files
        if not (name := file.relative_to(ROOT).as_posix()).startswith(DECLARED)
        and (repeated := repeats(file.read_text(), known))
    }
    assert len(files) > 200
    assert found == {}


def test_the_search_finds_what_is_said_again() -> None:
    known = everything()
    assert repeats('UNITS = {"forward_ps": "ps"}', known) == ["forward_ps"]
    assert repeats('Column("served", "count")', known) == ["served"]
    assert "busy_ps" in repeats(f'hint="{facts.column("links", "busy_ps").meaning}"', known)
    assert repeats('row["forward_ps"], "ns"', known) == []


def test_the_stand_in_has_the_tables_that_are_declared(fake_engine: ModuleType) -> None:

    (variant,) = study("name: one\ntopology: Ring(4)\nworkload: {model: resnet18, batch: 8}\n").variants
    spec = completing.specification(variant.experiment)
    result = fake_engine.run(json.dumps(spec))
    usual = {name: table for name, table in facts.engine().tables.items() if name not in OF_ETHERNET}
    assert list(result["tables"]) == list(usual)
    for name, table in usual.items():
        got = result["tables"][name]
        assert {c.name for c in table.columns.values() if c.always} <= set(got) <= set(table.columns), name
        for column, (kind, _) in got.items():
            assert kind == table.columns[column].stored.removeprefix("optional-"), (name, column)
    assert facts.engine().summary.keys() <= json.loads(result["summary"]).keys()
    assert fake_core.describe() == fake_engine.describe()


LITERALS: dict[str, Any] = {
    "collectives.lanes": collective.Collective.model_fields["lanes"].annotation,
    "collectives.priority": collective_names.Name,
    "collectives.scheduling": collective.Collective.model_fields["scheduling"].annotation,
    "endpoint.forwarding": IdealEndpoint.model_fields["forwarding"].annotation,
    "endpoint.fsm_split": AceEndpoint.model_fields["fsm_split"].annotation,
    "endpoint.sharing": StreamsEndpoint.model_fields["sharing"].annotation,
    "endpoint.transit": Transit,
    "job.compute.model.dataflow": Compute.model_fields["dataflow"].annotation,
    "job.compute.model.kind": Compute.model_fields["kind"].annotation,
    "job.strategy": get_args(workloads.Training.model_fields["strategy"].annotation)[0],
    "job.workload.kernels": workloads.ModelWorkload.model_fields["kernels"].annotation,
    "network.deadlock_rule": PacketNetwork.model_fields["deadlock_rule"].annotation,
}
"""Words of the schema, by the field of the engine's description that takes them."""


def test_the_schema_takes_the_words_of_the_engine() -> None:
    assert {field: set(get_args(words)) for field, words in LITERALS.items()} == {
        field: set(words) for field, words in facts.engine().words.items()
    }


def test_the_schema_has_the_algorithms_of_the_engine() -> None:
    # For what is fastest, for rings with one lane, and for trees that come to the engine as plans.
    own = {"auto", "ring-unidirectional", "packed-trees"}
    assert set(get_args(algorithms.Algorithm)) - own == set(facts.engine().algorithms)
    per_dimension = str(collective.Collective.model_fields["per_dimension"].annotation)
    assert set(re.findall(r"'([a-z-]+)'", per_dimension)) == set(facts.engine().programs)
    assert tuple(facts.engine().collectives) == collective_names.NAMES
    assert get_args(workloads.CollectiveWorkload.model_fields["collective"].annotation) == collective_names.NAMES


def test_the_schema_has_the_endpoints_and_backends_of_the_engine() -> None:
    # To the engine, an endpoint whose collectives are priced is the ideal one.
    own = {name for name, section in ENDPOINTS.items() if not section.is_priced}
    assert own == set(facts.engine().endpoints)
    backends = {
        name: (b.packet_bytes is not None, b.has_contention)
        for name, form in NETWORKS.items()
        for b in [form(backend=name)]
    }
    assert backends == {n.name: (n.has_packets, n.has_contention) for n in facts.engine().networks.values()}


def test_limits_of_the_schema_are_within_those_of_the_engine() -> None:
    assert facts.constant("most_npus") == topology.MAX_NPUS
    assert facts.constant("most_chunks") >= rules.MAX_CHUNKS


def test_names_are_asked_for_in_the_order_of_the_schema() -> None:
    assert list(programs.COMPOSITIONS) == [
        *("hierarchical", "hierarchical-optimal", "ace-4-phase", "six-phase", "themis")
    ]
    assert set(programs.TREES) == {"double-binary-tree", "one-hop-trees"}
    assert set(workloads.ROOTED & {"broadcast", "all-reduce"}) == {"broadcast"}
    assert "all-reduce" in programs.SUMS
    assert "all-gather" not in programs.SUMS
    assert len(programs.FLAT) == 4


@pytest.mark.parametrize("arguments", [("--version",), ("--help",), ("run", "--help")], ids=" ".join)
def test_what_needs_no_engine_does_not_load_it(arguments: tuple[str, ...]) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "syncline", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "syncline.commands.cli" in ended.stderr
    assert "syncline.core._core" not in ended.stderr
