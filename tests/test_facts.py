"""What the engine says of itself, and what this package says of it for editors and type checkers."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pyarrow.parquet as pq
import pytest

import syncline
from support.command import Ended
from syncline import facts
from syncline.endpoints import ENDPOINTS
from syncline.networks import NETWORKS
from syncline.schema import programs, workloads
from syncline.schema.experiment import Algorithm, Kind

Command = Callable[..., Ended]
ENGINE: dict[str, Any] = facts.describe()
OF_THIS_PACKAGE = {"ring-unidirectional", "auto"}
"""Algorithms that are others of the engine, with settings."""


def named(part: str) -> list[str]:
    """The names of a list of facts."""
    return [entry["name"] for entry in ENGINE[part]]


def test_whatever_can_be_asked_for_is_what_the_engine_has() -> None:
    assert set(named("algorithms")) == set(get_args(Algorithm)) - OF_THIS_PACKAGE
    assert named("kinds") == list(get_args(Kind))
    assert set(ENGINE["networks"]) == set(NETWORKS)
    assert named("endpoints") == list(ENDPOINTS)
    assert set(named("models")) == set(get_args(workloads.ModelWorkload.model_fields["model"].annotation))


def test_what_is_known_of_algorithms_is_what_the_engine_knows() -> None:
    assert {a["name"] for a in ENGINE["algorithms"] if a["composes"]} == set(programs.COMPOSITIONS)
    assert {kind["name"] for kind in ENGINE["kinds"] if kind["has_root"]} == workloads.ROOTED
    (in_switch,) = (a for a in ENGINE["algorithms"] if a["name"] == programs.IN_SWITCH)
    assert set(in_switch["kinds"]) == programs.IN_SWITCHES
    assert {model["name"] for model in ENGINE["models"] if model["has_sequence"]} == workloads.SEQUENCES


@pytest.mark.parametrize("endpoint", ["ideal", "{kind: ace, comm_memory_bandwidth: 128GB/s}"])
def test_parquet_tables_say_what_their_columns_mean(syncline_command: Command, tmp_path: Path, endpoint: str) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(
        f'name: small\ntopology: "Ring(4)_Ring(2)"\nworkload: {{model: resnet18, batch: 1}}\nendpoint: {endpoint}\n'
    )
    assert syncline_command("run", str(file), "--out", str(tmp_path / "out")).status == 0
    found = {path.stem: pq.read_schema(path) for path in (tmp_path / "out").rglob("*.parquet")}
    assert set(found) == set(facts.tables())
    for name, schema in found.items():
        declared = facts.tables()[name]
        assert [c for c in declared if c in schema.names] == schema.names
        assert {c.name for c in declared.values() if not c.optional} <= set(schema.names)
        for field in schema:
            column = declared[field.name]
            assert field.metadata == {b"unit": column.unit.encode(), b"meaning": column.meaning.encode()}


def test_no_other_file_says_what_a_column_means() -> None:
    sources = [path for path in Path(syncline.__file__).parent.rglob("*.py") if path.name != "facts.py"]
    texts = {path: path.read_text(encoding="utf-8") for path in sources}
    meanings = [column.meaning for table in facts.tables().values() for column in table.values()]
    assert len(meanings) > 60
    for meaning in meanings:
        again = [path for path, text in texts.items() if re.search(re.escape(meaning), text)]
        assert again == [], meaning
