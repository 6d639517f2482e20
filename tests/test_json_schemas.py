"""The JSON Schemas that are printed, against a validator that knows nothing of Syncline: legal, with defaults of their
own types, and right about every file that comes with the package."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from lab import reference
from support import schemas
from support.command import Ended
from support.experiments import THREE_SYSTEMS
from syncline.base import document
from syncline.commands import catalogue
from syncline.experiment import packaged as studies

Command = Callable[..., Ended]

EXAMPLES = Path(__file__).parents[1] / "examples"


def validator(of: str) -> Any:
    return jsonschema.Draft202012Validator(catalogue.SCHEMAS[of]())


def kind_of(path: Path) -> str:
    return next((kind for kind in ("sweep", "search", "figure") if path.name.endswith(f".{kind}.yaml")), "experiment")


def defaults(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema that has a default, wherever it stands."""
    if isinstance(schema, dict):
        if "default" in schema and not path.endswith("/properties"):
            yield path, schema
        for key, part in schema.items():
            yield from defaults(part, f"{path}/{key}")
    elif isinstance(schema, list):
        for i, part in enumerate(schema):
            yield from defaults(part, f"{path}/{i}")


@pytest.mark.parametrize("of", catalogue.SCHEMAS)
def test_is_a_schema_whose_defaults_are_legal(of: str, syncline_command: Command) -> None:
    whole = json.loads(syncline_command("schema", of).out)
    jsonschema.Draft202012Validator.check_schema(whole)
    found = list(defaults(whole))
    assert found or of not in ("experiment", "figure", "plan", "model", "run")
    for path, schema in found:
        own = jsonschema.Draft202012Validator({**schema, "$defs": whole.get("$defs", {})})
        assert not list(own.iter_errors(schema["default"])), (path, schema["default"])


@pytest.mark.parametrize("path", [*studies.FOLDER.glob("*/*.yaml"), *EXAMPLES.rglob("*.yaml")], ids=lambda p: p.name)
def test_accepts_what_comes_with_the_package(path: Path) -> None:
    validator(kind_of(path)).validate(document.plain(document.read(path.read_text(), path.name)))


def test_fields_are_described_by_their_docstrings() -> None:
    whole = catalogue.SCHEMAS["experiment"]()
    network = {name: part for name, part in whole["$defs"].items() if name.endswith("Network")}
    assert network
    for name, part in network.items():
        unexplained = [field for field, of in part["properties"].items() if "description" not in of]
        assert unexplained in ([], ["backend"]), name
    # A quantity's own description says how it is written; the field's docstring stands in its place.
    assert "with a unit" not in whole["$defs"]["PacketNetwork"]["properties"]["buffer"]["description"]


def test_documents_of_runs(syncline_command: Command, tmp_path: Path) -> None:
    """Of training with every endpoint, and of a collective on its own, complete and partial."""
    (tmp_path / "three.yaml").write_text(THREE_SYSTEMS.replace("resnet50", "resnet18"))
    (tmp_path / "one.yaml").write_text("name: one\ntopology: Ring(4)\nworkload: {collective: all-reduce, size: 1MB}\n")
    for name in ("three.yaml", "one.yaml"):
        written = json.loads(syncline_command("run", str(tmp_path / name), "--json").out)
        validator("run").validate(written)
        for key, wrong in (("runs", {}), ("status", "perhaps"), ("schema_version", None), ("warnings", [1])):
            damaged = copy.deepcopy(written)
            damaged[key] = wrong
            assert not validator("run").is_valid(damaged)
        damaged = copy.deepcopy(written)
        damaged["runs"][0]["npus"] = "many"
        assert not validator("run").is_valid(damaged)


DOCUMENTS: dict[str, list[str]] = {
    "bench": ["bench", "broadcast", "--machine", "dgx1v", "--gpus", "1,4-6", "--algorithm", "packed-trees"],
    "bench, executed": ["bench", "all-reduce", "--execute", "--ranks", "2", "--sizes", "1KiB,4KiB,16KiB,64KiB"],
    "collective, groups": ["collective", "broadcast", "--size", "1MB", "--topology", "Ring(4)", "--group", "size 2"],
    "collective, ace": ["collective", "all-reduce", "--size", "64kB", "--topology", "Ring(4)", "--endpoint", "ace"],
    "collective, ethernet": [
        *(
            "collective",
            "all-to-all",
            "--size",
            "64kB",
            "--topology",
            "Switch(4, rate=10Gb/s)",
            "--backend",
            "ethernet",
        ),
        *("--algorithm", "direct"),
    ],
    "collective, auto": ["collective", "all-to-all", "--size", "1MB", "--topology", "Ring(3)", "--algorithm", "auto"],
    "collective, trees": [
        *("collective", "all-reduce", "--size", "9MB", "--machine", "dgx1v", "--gpus", "0-2"),
        *("--algorithm", "packed-trees", "--slices", "miad", "--backend", "flow"),
    ],
    "export": ["export", "all-reduce", "--algorithm", "ring", "--ranks", "4"],
    "export, msccl": ["export", "all-reduce", "--algorithm", "ring", "--ranks", "4", "--format", "msccl-xml"],
    "export, mscclpp": ["export", "all-reduce", "--algorithm", "ring", "--ranks", "4", "--format", "mscclpp-json"],
    "list": ["list"],
    "topology show, machine": ["topology", "show", "--machine", "dgx-a100(nodes=2)"],
    "topology show, graph": ["topology", "show", "LeafSpine(leaves=2, spines=2, hosts=2, buffer=1MB)"],
    "trees, compared": ["trees", "--machine", "dgx1v", "--gpus", "1,4,5,6", "--compare"],
    "trees, both ways": ["trees", "--machine", "dgx1v", "--gpus", "0-3", "--collective", "all-reduce"],
    "trees, parts": ["trees", "--machine", "dgx1v", "--gpus", "0-3", "--collective", "scatter", "--root", "auto"],
    "trees, hybrid": ["trees", "--machine", "dgx1v", "--gpus", "1,4,5", "--links", "hybrid"],
    "trees, swept": ["trees", "--machine", "dgx1v", "--gpus", "0-3", "--sweep", "allocations", "--sizes", "3"],
    "reproduce, experiments": ["reproduce", "ace-fig6-sms", "--experiments"],
}
"""What commands print that is not the usual."""


@pytest.mark.parametrize("what", DOCUMENTS)
def test_documents_of_options(
    what: str, syncline_command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = syncline_command(*DOCUMENTS[what], "--json")
    assert ended.status == 0, ended.err
    command = what.partition(",")[0]
    assert not schemas.problems(schemas.BY_COMMAND[command], json.loads(ended.out))


def test_documents_of_runs_say_what_auto_looked_at(syncline_command: Command, tmp_path: Path) -> None:
    """Candidates that were simulated, stopped and refused; for all kinds of collectives and for one kind."""
    training = "workload: {model: dlrm, batch: 1}\ncollective: {algorithm: auto, algorithms: {all-to-all: auto}}\n"
    alone = "workload: {collective: all-reduce, size: 64MB}\ncollective: {algorithm: auto}\n"
    keys: set[str] = set()
    for text in (training, alone):
        (tmp_path / "auto.yaml").write_text(f"name: one\ntopology: Ring(4)\n{text}")
        written = json.loads(syncline_command("run", str(tmp_path / "auto.yaml"), "--json").out)
        keys.update(*written["runs"][0]["algorithm_choice"]["candidates"])
        assert not schemas.problems("run", written)
    assert {"predicted_time_s", "longer_than_s", "refused", "kind"} <= keys


def test_plans(syncline_command: Command) -> None:
    """Of the package, and of every algorithm."""
    written = [path.read_text() for path in EXAMPLES.rglob("*.json")]
    algorithms = ("ring", "direct", "halving-doubling", "double-binary-tree", "one-hop-trees", "in-switch", "themis")
    for algorithm in algorithms:
        line = ["export", "all-reduce", "--algorithm", algorithm, "--size", "1MB", "--ranks"]
        written.append(syncline_command(*line, "4x2" if algorithm == "themis" else "4").out)
    for kind in ("all-to-all", "scatter"):
        written.append(syncline_command("export", kind, "--algorithm", "direct", "--ranks", "4").out)
    assert len(written) >= len(algorithms) + 4
    for text in written:
        validator("plan").validate(json.loads(text))
    damages: list[Callable[[dict[str, Any]], None]] = [
        lambda form: form.pop("grid"),
        lambda form: form.update(version=1),
        lambda form: form.update(colour="blue"),
        lambda form: form["programs"][0].update(blocks=0),
        lambda form: form["programs"][0]["ranks"][0][0][0]["steps"][0].update(op="x"),
        lambda form: form["programs"][0]["ranks"][0][0][0]["steps"][0].update(way={"by": 1}),
    ]
    for damage in damages:
        form = json.loads(written[0])
        damage(form)
        assert not validator("plan").is_valid(form)


def test_figures_with_typing_errors_are_refused() -> None:
    path = studies.FOLDER / "ace/fig9a.figure.yaml"
    legal = document.plain(document.read(path.read_text(), path.name))
    assert isinstance(legal, dict)
    wrongs: list[dict[str, Any]] = [
        {"panel": []},
        {"columns": 0},
        {"panels": []},
        {"panels": [{"kind": "pie", "title": "t"}]},
    ]
    for wrong in wrongs:
        assert not validator("figure").is_valid(legal | wrong)


def test_the_pages_name_all_schemas() -> None:
    docs = Path(__file__).parents[1] / "docs"
    policy = (docs / "documents.md").read_text().partition("## Versions")[0]
    fields = reference.pages()["reference/documents.md"]
    assert set(re.findall(r"`([a-z-]+)`", policy + fields)) >= set(catalogue.SCHEMAS)
