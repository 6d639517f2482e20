"""Importing modules and profiles of a real PyTorch."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.command import Ended
from syncline.importers import fx

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("default")]  # warnings of PyTorch are its own
Command = Callable[..., Ended]
PRODUCTS = ("linear", "conv", "conv-transpose", "matmul", "attention")


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def residual() -> tuple[Any, list[Any]]:
    """A block of a residual network."""
    import torch
    from torch import nn

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Conv2d(8, 16, 3, 2, 1, bias=False), nn.Conv2d(16, 16, 3, 1, 1, bias=False)
            self.norm, self.relu = nn.BatchNorm2d(16), nn.ReLU()
            self.shortcut = nn.Conv2d(8, 16, 1, 2)

        def forward(self, x: Any) -> Any:
            return self.relu(self.norm(self.second(self.relu(self.first(x)))) + self.shortcut(x))

    return Block(), [torch.randn(2, 8, 12, 10)]


def perceptron() -> tuple[Any, list[Any]]:
    import torch
    from torch import nn

    return nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, 16)), [torch.randn(8, 16)]


def encoder(**settings: Any) -> tuple[Any, list[Any]]:
    import torch
    from torch import nn

    if not hasattr(torch.backends, "mha"):
        pytest.skip("this PyTorch cannot turn off the fast path of transformer layers")
    return nn.TransformerEncoderLayer(32, 4, 64, **settings), [torch.randn(2, 10, 32)]


def tied() -> tuple[Any, list[Any]]:
    """A language model whose head has the weights of its embedding, and a layer that it uses twice."""
    import torch
    from torch import nn

    class Language(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.table, self.twice = nn.Embedding(50, 16), nn.Linear(16, 16)
            self.head = nn.Linear(16, 50, bias=False)
            self.head.weight = self.table.weight

        def forward(self, tokens: Any) -> Any:
            return self.head(self.twice(self.twice(self.table(tokens))))

    return Language(), [torch.randint(0, 50, (2, 5))]


def transposed() -> tuple[Any, list[Any]]:
    import torch
    from torch import nn

    return nn.Sequential(nn.Conv2d(8, 8, 3, groups=4), nn.ConvTranspose2d(8, 4, 2, 2)), [torch.randn(2, 8, 9, 9)]


MODULES: dict[str, Callable[[], tuple[Any, list[Any]]]] = {
    "residual": residual,
    "perceptron": perceptron,
    "encoder": lambda: encoder(batch_first=True),
    "encoder, tokens first": encoder,
    "tied": tied,
    "transposed": transposed,
}


@pytest.mark.parametrize("name", MODULES)
def test_a_module_has_its_parameters_and_operations(name: str, syncline_command: Command) -> None:
    import torch

    torch.manual_seed(1)
    module, given = MODULES[name]()
    buffers = {key: value.clone() for key, value in module.named_buffers()}
    description = fx.from_module(module, given)
    assert all(torch.equal(value, buffers[key]) for key, value in module.named_buffers())
    if importlib.util.find_spec("torch.utils.flop_counter"):  # PyTorch 2.1
        from torch.utils.flop_counter import FlopCounterMode

        with FlopCounterMode(display=False) as counted:
            module(*given)
        ours = sum(fx.flops(of) for of in description["operators"] if of["op"] in PRODUCTS)
        # Only the softmax of attention, and what adds biases around it, is counted here alone.
        assert counted.get_total_flops() <= ours < 1.03 * counted.get_total_flops()
        if "encoder" not in name:
            assert ours == counted.get_total_flops()
    Path("m.json").write_text(json.dumps(description))
    ended = syncline_command("import", "fx", "m.json", "--npus", "2", "-o", "out", "--json")
    assert ended.status == 0, ended.err
    assert json.loads(ended.out)["parameters"] == sum(weight.numel() for weight in module.parameters())
    ended = syncline_command("run", "out/experiment.yaml", "--json")
    assert json.loads(ended.out)["runs"][0]["compute_time_s"] > 0


def test_weights_that_are_not_trained_have_no_gradients() -> None:
    import torch

    frozen = torch.nn.Linear(8, 8).requires_grad_(False)
    found = fx.from_module(torch.nn.Sequential(frozen, torch.nn.Linear(8, 4)), [torch.randn(2, 8)])["operators"]
    assert [(of["parameters"], of["weight"]) for of in found] == [(0, [8, 8]), (36, [4, 8])]
    assert fx.moved(found[0]) == 4 * (16 + 64 + 16)


def test_modules_that_cannot_be_described_are_refused_in_words(capfd: pytest.CaptureFixture[str]) -> None:
    import torch
    from torch import nn

    class Flow(nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return x if x.sum() > 0 else -x

    for module, given, said in (
        (Flow(), [torch.ones(2)], "torch.fx cannot trace Flow: symbolically traced variables cannot be used"),
        (nn.Sequential(nn.LSTM(8, 8)), [torch.ones(2, 2, 8)], r"the operations of layer 0 \(LSTM\) are not known"),
        (nn.Sequential(nn.Linear(3, 3)), [torch.ones(2, 2)], "Sequential cannot be run on the example inputs: "),
        (nn.Sequential(nn.Linear(3, 3)), [], "Sequential cannot be run on the example inputs: "),
        (3, [], "3 is no torch.nn.Module"),
    ):
        with pytest.raises(fx.UntraceableError, match=said):
            fx.from_module(module, given)
    assert capfd.readouterr().err == ""


def test_a_profile_of_a_cpu_alone_is_refused_in_one_message(syncline_command: Command) -> None:
    import torch
    from torch import distributed, nn

    activities = [torch.profiler.ProfilerActivity.CPU]
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        module = nn.parallel.DistributedDataParallel(nn.Linear(8, 8))
        module(torch.randn(2, 8)).sum().backward()
        with torch.profiler.profile(activities=activities) as profiled:
            module(torch.randn(2, 8)).sum().backward()
        profiled.export_chrome_trace("p.0.json")
    finally:
        distributed.destroy_process_group()
    ended = syncline_command("import", "kineto", "p.0.json", "-o", "out")
    assert (ended.status, ended.out) == (2, "")
    if isinstance(json.loads(Path("p.0.json").read_text()), list):  # PyTorch that was built without Kineto
        assert "p.0.json:1: traceEvents: this is no profile" in ended.err
    else:
        assert "there is no event of a GPU (kernel, gpu_memcpy, gpu_memset), as in profiles of a CPU alone" in ended.err
    assert ended.err.endswith("1 error\n")
