"""Modules of PyTorch: what tracing one gives, and the iteration that it becomes."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from support.command import Ended
from syncline.importers import fx

Command = Callable[..., Ended]

MLP: dict[str, Any] = {
    "format": "syncline-fx",
    "version": 1,
    "module": "Mlp",
    "operators": [
        {"name": "embed", "op": "embedding", "layer": "embed", "inputs": [[8]], "output": [8, 16],
         "weight": [100, 16], "parameters": 1600, "element": 4, "groups": 1},
        {"name": "up", "op": "linear", "layer": "up", "inputs": [[8, 16]], "output": [8, 64],
         "weight": [64, 16], "parameters": 1088, "element": 4, "groups": 1},
        {"name": "gelu", "op": "elementwise", "layer": "gelu", "inputs": [[8, 64]], "output": [8, 64],
         "weight": None, "parameters": 0, "element": 4, "groups": 1},
        {"name": "down", "op": "linear", "layer": "down", "inputs": [[8, 64]], "output": [8, 16],
         "weight": [16, 64], "parameters": 1040, "element": 4, "groups": 1},
    ],
}  # fmt: skip


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def graph(command: Command, description: Any, *flags: str) -> dict[str, Any]:
    Path("m.json").write_text(json.dumps(description, indent=1))
    ended = command("import", "fx", "m.json", "-o", "out", *flags)
    assert ended.status == 0, ended.err
    found: dict[str, Any] = json.loads(Path("out/graph.json").read_text())
    return found


def test_an_iteration_is_forward_backward_and_reduced_gradients(syncline_command: Command) -> None:
    (of,) = graph(syncline_command, MLP, "--npus", "4")["classes"].values()
    assert [node["name"] for node in of["nodes"]] == [
        *("embed forward", "up forward", "gelu forward", "down forward"),
        *("down weight-grad", "down gradients", "down input-grad", "gelu input-grad"),
        *("up weight-grad", "up gradients", "up input-grad", "embed weight-grad", "embed gradients"),
        *("down update", "up update", "embed update"),
    ]
    nodes = {node["name"]: node for node in of["nodes"]}
    assert nodes["up forward"]["compute"] == {"flops": 2 * 8 * 16 * 64, "bytes": f"{4 * (128 + 512 + 1088)}B"}
    assert nodes["up weight-grad"]["compute"] == nodes["up forward"]["compute"]
    assert nodes["up gradients"]["collective"] == {"family": "data", "kind": "all-reduce", "size": "4352B"}
    assert nodes["up forward"]["after_previous"] == ["up update"]
    ended = syncline_command("run", "out/experiment.yaml", "--json", "--set", "training.iterations=3")
    assert json.loads(ended.out)["runs"][0]["compute_time_s"] > 0


def test_one_npu_reduces_nothing(syncline_command: Command) -> None:
    (of,) = graph(syncline_command, MLP)["classes"].values()
    assert not any("collective" in node for node in of["nodes"])
    assert syncline_command("run", "out/experiment.yaml", "-q").status == 0


@pytest.mark.parametrize(
    ("operator", "flops"),
    [
        ({"op": "conv", "inputs": [[2, 3, 8, 8]], "output": [2, 4, 8, 8], "weight": [4, 3, 3, 3]}, 2 * 512 * 27),
        (
            {"op": "conv-transpose", "inputs": [[2, 4, 3, 3]], "output": [2, 6, 6, 6], "weight": [4, 6, 2, 2]},
            2 * 72 * 24,
        ),
        ({"op": "matmul", "inputs": [[5, 2, 3], [5, 3, 4]], "output": [5, 2, 4], "weight": None}, 2 * 5 * 2 * 3 * 4),
        (
            {"op": "attention", "inputs": [[2, 4, 6, 8]] * 3, "output": [2, 4, 6, 8], "weight": None},
            4 * 48 * 6 * 8 + 5 * 288,
        ),
        ({"op": "norm", "inputs": [[2, 8]], "output": [2, 8], "weight": None}, 5 * 16),
        ({"op": "embedding", "inputs": [[2]], "output": [2, 8], "weight": [9, 8]}, 0),
    ],
    ids=lambda value: value["op"] if isinstance(value, dict) else "",
)
def test_operations_of_operators(operator: dict[str, Any], flops: int) -> None:
    assert fx.flops({"parameters": 0, "element": 4, **operator}) == flops


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("operators", 1, "op"), "lstm", "m.json:29: operators.1.op: this is not accepted"),
        (("operators", 1, "output"), [8, -1], "operators.1.output: this is not accepted"),
        (("operators", 1, "parameters"), "many", "operators.1.parameters: this is not accepted"),
        (("operators", 1, "colour"), 1, "operators.1.colour: this key is not known"),
        (("operators", 1, "output"), [2**40, 2**40], "operators.1: this operator is too large"),
        (("operators",), [], "operators: there are no operators"),
        (("version",), 2, "this is no description of a module"),
    ],
)
def test_descriptions_are_refused_with_the_place(
    path: tuple[str | int, ...], value: Any, said: str, syncline_command: Command
) -> None:
    description = json.loads(json.dumps(MLP))
    at = description
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    Path("m.json").write_text(json.dumps(description, indent=1))
    ended = syncline_command("import", "fx", "m.json", "-o", "out")
    assert (ended.status, ended.out) == (2, "")
    assert said in ended.err


class Parameter:
    requires_grad = True

    def __init__(self, *shape: int) -> None:
        self.shape = shape


class Linear:
    def __init__(self, *parameters: Parameter) -> None:
        self._parameters = parameters

    def parameters(self) -> tuple[Parameter, ...]:
        return self._parameters


def traced_node(op: str, name: str, target: Any, shape: tuple[int, ...] | None, inputs: list[Any]) -> Any:
    meta = {} if shape is None else {"tensor_meta": SimpleNamespace(shape=shape, dtype=SimpleNamespace(itemsize=2))}
    return SimpleNamespace(op=op, name=name, target=target, meta=meta, all_input_nodes=inputs)


def gelu() -> None:
    """Stands for a function of PyTorch."""


def matmul() -> None:
    """Stands for another."""


def test_what_a_traced_module_is_described_as() -> None:
    x = traced_node("placeholder", "x", "x", (8, 16), [])
    up = traced_node("call_module", "up", "up", (8, 64), [x])
    act = traced_node("call_function", "gelu", gelu, (8, 64), [up])
    flat = traced_node("call_method", "view", "view", (512,), [act])
    weight = traced_node("get_attr", "w", "head.w", None, [])
    last = traced_node("call_function", "matmul", matmul, (8, 4), [act, weight])
    module = SimpleNamespace(
        graph=SimpleNamespace(nodes=[x, up, act, flat, weight, last]),
        named_modules=lambda: [("up", Linear(Parameter(64, 16), Parameter(64)))],
        head=SimpleNamespace(w=Parameter(64, 4)),
        _get_name=lambda: "Net",
    )
    found = fx.described(module)
    assert found["module"] == "Net"
    keys = ("name", "op", "layer", "inputs", "output", "weight", "parameters", "element")
    assert [tuple(of[key] for key in keys) for of in found["operators"]] == [
        ("up", "linear", "up", [[8, 16]], [8, 64], [64, 16], 1088, 2),
        ("gelu", "elementwise", "gelu", [[8, 64]], [8, 64], None, 0, 2),
        ("matmul", "matmul", "head", [[8, 64]], [8, 4], [64, 4], 256, 2),
    ]


def test_parameters_that_two_operators_share_are_exchanged_once(syncline_command: Command) -> None:
    tied = json.loads(json.dumps(MLP))
    head = {"name": "head", "op": "linear", "layer": "head", "inputs": [[8, 16]], "output": [8, 100], "groups": 1}
    tied["operators"].append(head | {"weight": [100, 16], "parameters": 1600, "shared": 1600, "element": 4})
    (of,) = graph(syncline_command, tied, "--npus", "4")["classes"].values()
    nodes = {node["name"]: node for node in of["nodes"]}
    assert nodes["head weight-grad"]["compute"]["flops"] == 2 * 8 * 16 * 100
    assert nodes["embed gradients"]["collective"]["size"] == "6400B"
    assert not {"head gradients", "head update"} & set(nodes)
    assert "after_previous" not in nodes["head forward"]
    ended = syncline_command("import", "fx", "m.json", "-o", "out", "--json")
    assert json.loads(ended.out)["parameters"] == 1600 + 1088 + 1040
    tied["operators"][-1]["shared"] = 1601
    Path("m.json").write_text(json.dumps(tied))
    assert "operators.4.shared: this is out of range" in syncline_command("import", "fx", "m.json", "-o", "out").err


@pytest.mark.parametrize("named", ["syncline.importers.fx", "syncline.torch"])
def test_without_pytorch_it_is_said_who_needs_it(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    for module in ("syncline.torch", "syncline.torch.process_group"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"PyTorch is not installed: .* needs it") as caught:
        fx.from_module(None, []) if named == "syncline.importers.fx" else importlib.import_module(named)
    assert caught.value.name == "torch"
