"""The JSON Schemas that are printed, against a validator that knows nothing of Syncline: legal, with defaults of their
own types, and right about every file that comes with the package."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from support.command import Ended
from support.experiments import THREE_SYSTEMS
from syncline import document, studies
from syncline.figures import export as figures
from syncline.models import export as models
from syncline.schedules import plan_form
from syncline.schema import answers, documents, export
from syncline.searches import file as searches
from syncline.sweeps import export as sweeps

Command = Callable[..., Ended]

SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {
    "experiment": export.json_schema,
    "sweep": sweeps.json_schema,
    "search": searches.json_schema,
    "figure": figures.json_schema,
    "run": documents.json_schema,
    "explain": answers.explain_schema,
    "diff": answers.diff_schema,
    "plan": plan_form.json_schema,
    "model": models.json_schema,
}
EXAMPLES = Path(__file__).parents[1] / "examples"


def validator(of: str) -> Any:
    return jsonschema.Draft202012Validator(SCHEMAS[of]())


def kind_of(path: Path) -> str:
    return next((kind for kind in ("sweep", "figure") if path.name.endswith(f".{kind}.yaml")), "experiment")


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


@pytest.mark.parametrize("of", SCHEMAS)
def test_is_a_schema_whose_defaults_are_legal(of: str, syncline_command: Command) -> None:
    whole = json.loads(syncline_command("schema", of).out)
    jsonschema.Draft202012Validator.check_schema(whole)
    found = list(defaults(whole))
    assert found or of == "sweep"
    for path, schema in found:
        own = jsonschema.Draft202012Validator({**schema, "$defs": whole.get("$defs", {})})
        assert not list(own.iter_errors(schema["default"])), (path, schema["default"])


@pytest.mark.parametrize("path", [*studies.FOLDER.glob("*/*.yaml"), *EXAMPLES.rglob("*.yaml")], ids=lambda p: p.name)
def test_accepts_what_comes_with_the_package(path: Path) -> None:
    validator(kind_of(path)).validate(document.plain(document.read(path.read_text(), path.name)))


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
