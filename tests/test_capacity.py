"""Whether a training fits into the memory of its NPUs: what is refused, in every form of workload."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import syncline
from support.command import Ended
from support.experiments import study
from syncline.base.errors import InputError
from syncline.engine import runs as engine
from syncline.fabric.gpus import GPUS
from syncline.models import counts, evaluate, file
from syncline.sections.workloads import ModelWorkload, NamedModel
from syncline.strategies import capacity, fit, memory, training

Command = Callable[..., Ended]

GIB = 2**30
REPORTED = {
    "p100": (15.85, 15.92),
    "v100-16gb": (15.75, 15.80),
    "v100-32gb": (31.70, 31.76),
    "a100-40gb": (39.35, 39.60),
    "a100-80gb": (79.10, 79.40),
    "a100-pcie-40gb": (39.35, 39.60),
    "a100-pcie-80gb": (79.10, 79.40),
    "h100-pcie": (79.05, 79.66),
    "h100-nvl": (92.9, 93.6),
    "h100": (79.05, 79.66),
    "h200": (139.7, 140.5),
    "b200": (178.0, 183.5),
    "gb200": (184.0, 186.0),
}
"""GiB of a device, as programs and `nvidia-smi` report them with different drivers."""
TEXT = "DATA\n1\nlayer -1 10 NONE 0 10 NONE 0 10 ALLREDUCE {size} 10\n"
PLAIN = "network: analytical\ncollective: {algorithm: ring, chunks: 1}\n"


def refused(workload: str, more: str = "", *settings: str, topology: str = "dgx-a100") -> tuple[str, str, str, str]:
    """The field, its value, the message and what is accepted of an experiment that does not fit."""
    (variant,) = study(f"name: x\ntopology: {topology}\n{PLAIN}workload: {workload}\n{more}", *settings).variants
    with pytest.raises(InputError) as raised:
        engine.preview(variant)
    (problem,) = raised.value.problems
    return problem.field, str(problem.value), problem.message, str(problem.accepted)


def fits(workload: str, more: str = "", *settings: str, topology: str = "dgx-a100") -> None:
    """An experiment that fits."""
    (variant,) = study(f"name: x\ntopology: {topology}\n{PLAIN}workload: {workload}\n{more}", *settings).variants
    assert engine.preview(variant).npus


@pytest.mark.parametrize("name", GPUS)
def test_gpus_have_what_programs_see(name: str) -> None:
    low, high = REPORTED[name]
    assert low <= GPUS[name].memory / GIB <= high


def test_contexts_and_buffers_are_left_out() -> None:
    (variant,) = study("name: x\ntopology: dgx-h100\nworkload: {model: gpt2, batch: 1}\n").variants
    npu = variant.experiment.npu
    assert npu.available == GPUS["h100"].memory - GIB
    (variant,) = study("name: x\ntopology: Ring(4)\nnpu: {memory: 16GB}\nworkload: {model: gpt2, batch: 1}\n").variants
    assert variant.experiment.npu.available == 16 * 10**9  # which is no GPU with a context


class TestForms:
    def test_divided(self) -> None:
        field, given, message, accepted = refused("{model: llama3-8b, sequence: 1024, global_batch: 8}")
        assert (field, given) == ("workload.model", "llama3-8b")
        assert re.fullmatch(
            r"an NPU needs 160\.62 GB when weights are updated: weights 16\.06 GB, gradients 16\.06 GB, "
            r"optimiser 128\.48 GB, libraries 0\.02 GB; "  # with the roots that `foreach` has for a while
            r"it has 83\.91 GB: 84\.99 GB \(npu\.memory\) less 1\.07 GB \(npu\.reserved\)",
            message,
        )
        assert accepted.startswith("parallel: {zero: 1}, which needs 51.")
        assert accepted.endswith("syncline fit lists; or npu.memory: 162GB, to simulate it nevertheless")
        field, _, message, _ = refused("{model: llama3-8b, global_batch: 8}", "parallel: {recompute: full}\n")
        assert field == "parallel"
        assert message.startswith("with tensor 1, pipeline 1, data 8, zero 0, recompute full, an NPU needs ")
        fits("{model: llama3-8b, sequence: 1024, global_batch: 8}", "parallel: {zero: 1}\n")
        fits("{model: llama3-8b, sequence: 1024, global_batch: 8}", "npu: {memory: 162GB}\n")

    def test_copies(self) -> None:
        field, given, message, accepted = refused("{model: resnet50, batch: 2000}")
        assert (field, given) == ("workload.batch", "2000")
        assert "an NPU needs " in message
        most = int(accepted.split(";")[0].removeprefix("up to "))
        fits(f"{{model: resnet50, batch: {most}}}")
        refused(f"{{model: resnet50, batch: {most + 1}}}")
        field, given, _, accepted = refused("{model: llama3-8b, sequence: 1024, batch: 2}")
        assert (field, given) == ("workload.model", "llama3-8b")
        assert accepted.startswith("in place of batch, global_batch: 16 and parallel: {zero: 1}, which needs ")

    def test_jobs(self) -> None:
        jobs = (
            "{jobs: [{name: one, npus: 0-3, workload: {model: gpt2, batch: 1}}, {name: two, npus: 4-7, workload: @}]}"
        )
        field, given, _, _ = refused(jobs.replace("@", "{model: llama3-8b, sequence: 1024, batch: 1}"))
        assert (field, given) == ("workload.jobs.1.workload.model", "llama3-8b")
        fits(jobs.replace("@", "{model: gpt2, batch: 1}"))

    def test_recommenders_share_tables(self) -> None:
        field, _, message, _ = refused(
            "{model: dlrm-mlperf, batch: 64, parameters: {features: 1024}}", topology="dgx1p"
        )
        assert field == "workload.model"
        assert "weights 48." in message
        fits("{model: dlrm-mlperf, batch: 64}", topology="dgx1p")

    def test_texts(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "large.txt").write_text(TEXT.format(size=50 * 10**9))
        field, given, message, _ = refused("{astra_text: large.txt}")
        assert (field, given) == ("workload.astra_text", "large.txt")
        assert message.startswith("an NPU needs 100.00 GB: weights 50.00 GB, gradients 50.00 GB; it has")
        (tmp_path / "small.txt").write_text(TEXT.format(size=10**9))
        fits("{astra_text: small.txt}")

    def test_every_command_says_it(self, syncline_command: Command, tmp_path: Path) -> None:
        path = tmp_path / "m.yaml"
        path.write_text(f"name: x\ntopology: dgx1p\n{PLAIN}workload: {{model: resnet50, batch: 2000}}\n")
        for command in ("check", "run", "explain"):
            ended = syncline_command(command, str(path))
            assert (ended.status, ended.out) == (2, "")
            assert "workload.batch: an NPU needs" in ended.err


class TestStates:
    """With `training.update: false` no optimiser is carried out, which keeps nothing."""

    def test_of_divisions(self) -> None:
        text = "name: x\ntopology: dgx-a100\nworkload: {model: gpt2, global_batch: 8}\nparallel: {zero: 1}\n"
        found = []
        for update in ("true", "false"):
            (variant,) = study(text, f"training.update={update}").variants
            (needed,) = memory.of(training.of(variant.experiment).setting())
            found.append(needed.terms())
        assert found[0]["optimiser"] > 0
        assert found[1] == found[0] | {"optimiser": 0}

    def test_of_copies(self) -> None:
        workload = ModelWorkload(model=NamedModel("resnet50"), batch=1)
        with_states, without = (capacity.of_copies(workload, 8, update=update) for update in (True, False))
        parameters = counts.parameters(evaluate.evaluate(file.by_name("resnet50"), 1))
        assert (with_states.weights, with_states.gradients) == (2 * parameters, 2 * parameters)
        assert (with_states.optimiser, without.optimiser) == (8 * parameters, 0)
        assert without.total + without.optimiser + 8 * parameters == with_states.total

    def test_widths_of_states(self) -> None:
        """In FP32 weights are updated where they are; a momentum is as wide as they are."""
        parameters = counts.parameters(evaluate.evaluate(file.by_name("resnet50"), 1))
        for element, states in ((4, 4), (8, 8), (2, 8), (1, 8)):
            workload = ModelWorkload.model_validate({"model": "resnet50", "batch": 1, "element": f"{element}B"})
            assert capacity.of_copies(workload, 8, update=True).optimiser == states * parameters


class TestFit:
    def test_the_document_says_what_is_for_a_model(self) -> None:
        experiment: dict[str, Any] = {"name": "f", "topology": "dgx-h100", "gpus": "0-3"}
        experiment["workload"] = {"model": "gpt2", "parameters": {"vocabulary": 50304}, "global_batch": 4}
        (variant,) = syncline.fit(experiment).document["variants"]
        memory_bytes = GPUS["h100"].memory
        assert (variant["memory_bytes"], variant["reserved_bytes"]) == (memory_bytes, GIB)
        assert (variant["available_bytes"], variant["npus"]) == (memory_bytes - GIB, 4)

    def test_the_first_that_fits_is_the_least_divided(self) -> None:
        text = "name: x\ntopology: dgx-a100(nodes=4)\nworkload: {model: llama3-8b, sequence: 1024, global_batch: 32}\n"
        (variant,) = study(text).variants
        request = training.of(variant.experiment)
        every = {c.needed.total for c in fit.candidates(request)}
        for available in (200, 100, 40, 20, 6):
            found = fit.first_that_fits(request, available * 10**9)
            assert (found is None) == (min(every) > available * 10**9)
            assert found is None or found.needed.total <= available * 10**9
        found = fit.first_that_fits(request, 200 * 10**9)
        assert found is not None
        assert fit.changes(request, found) == ""
        found = fit.first_that_fits(request, 40 * 10**9)
        assert found is not None
        assert fit.changes(request, found) == "zero: 2"


def test_a_sweep_goes_on_beside_what_does_not_fit(syncline_command: Command, tmp_path: Path) -> None:
    base = f"name: b\ntopology: dgx1p\n{PLAIN}workload: {{model: resnet50, batch: 1}}\n"
    (tmp_path / "b.yaml").write_text(base)
    (tmp_path / "s.sweep.yaml").write_text("name: s\nbase: [b.yaml]\naxes:\n  workload.batch: [1, 2000]\n")
    ended = syncline_command("sweep", str(tmp_path / "s.sweep.yaml"), "--json", "-q")
    rows = json.loads(ended.out)["rows"]
    assert [row["status"] for row in rows] == ["done", "refused"]
