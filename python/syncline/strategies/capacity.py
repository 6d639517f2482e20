"""What does not fit into the memory of an NPU, whatever form the workload has, and what would mend it.

Counted is what `strategies.memory` counts. A model with `workload.batch` has copies on all NPUs, with the states of
stochastic gradient descent with momentum, whose updates the training loop carries out: a momentum, and where elements
are narrower than four bytes a copy of the weights, of four bytes each. Of a recommendation model, each NPU has its
share of the tables, whose gradients are applied where they arrive. A text workload says no more than the sizes of
gradients, so that only weights and gradients are counted. Graphs of files say nothing of memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING, Final

from syncline.base.section import Violation
from syncline.models import counts
from syncline.sections.data_types import Widths
from syncline.sections.execution import Execution
from syncline.sections.npu import Npu
from syncline.sections.parallel import Optimiser, Parallel
from syncline.sections.workloads import AstraWorkload, DividedWorkload, JobsWorkload, ModelWorkload, TextFile
from syncline.strategies import fit, memory, training
from syncline.strategies.costs import Costs
from syncline.strategies.memory import Memory
from syncline.strategies.mesh import Mesh
from syncline.strategies.setting import Setting
from syncline.strategies.training import Request, in_gb

if TYPE_CHECKING:
    from syncline.sections.experiment import Experiment

WIDE: Final = 4
"""Bytes of what an optimiser keeps for each parameter, at least (`sgd_momentum` in Rust)."""
GB: Final = 10**9
AS_IT_IS: Final = Execution()
"""How an NPU runs a model where nothing is known of its kernels."""


def violations(experiment: Experiment) -> Iterator[Violation]:
    """What does not fit into the memory of an NPU, if that is known: with what it needs and has, and what would fit."""
    available, workload = experiment.npu.available, experiment.workload
    if available is None:
        return
    if isinstance(workload, DividedWorkload):
        yield from _divided(experiment, available)
    elif isinstance(workload, ModelWorkload):
        yield from _copies(experiment, workload, ("workload",), available)
    elif isinstance(workload, JobsWorkload):
        for number, job in enumerate(workload.jobs):
            yield from _copies(experiment, job.workload, ("workload", "jobs", str(number), "workload"), available)
    elif isinstance(workload, AstraWorkload) and isinstance(workload.astra_text, TextFile):
        gradients = workload.astra_text.gradient_bytes
        if 2 * gradients > available:
            size = in_gb(gradients)
            needs = f"an NPU needs {in_gb(2 * gradients)}: weights {size}, gradients {size}"
            message = f"{needs}; {_has(experiment.npu)}"
            yield Violation(("workload", "astra_text"), message, _nevertheless(experiment.npu, 2 * gradients))


def _divided(experiment: Experiment, available: int) -> Iterator[Violation]:
    request = training.of(experiment)
    needed = max(memory.of(request.setting()), key=lambda of_stage: of_stage.total)
    if needed.total > available:
        where = f"an NPU of stage {needed.stage}" if experiment.parallel.pipeline > 1 else "an NPU"
        path: tuple[str, ...] = ("workload", "model")
        if "parallel" in experiment.model_fields_set:
            parallel = request.setting().parallel
            ways = ", ".join(f"{name} {getattr(parallel, name)}" for name in fit.VARIED)
            path, where = ("parallel",), f"with {ways}, {where}"
        found = fit.first_that_fits(request, available)
        mended = "more NPUs, or fewer tokens or layers" if found is None else _division(request, found)
        accepted = f"{mended}; another division that syncline fit lists; "
        accepted += _nevertheless(experiment.npu, needed.total)
        yield Violation(path, f"{where} needs {_terms(needed)}; {_has(experiment.npu)}", accepted)


def _copies(
    experiment: Experiment, workload: ModelWorkload, path: tuple[str, ...], available: int
) -> Iterator[Violation]:
    """What is wrong with a model of which all NPUs have copies."""
    needed = of_experiment(experiment, workload)
    if needed.total <= available:
        return
    nevertheless = _nevertheless(experiment.npu, needed.total)
    message = f"an NPU needs {_terms(needed)}; {_has(experiment.npu)}"
    most = _samples(workload, needed, available)
    if most >= 1:
        yield Violation((*path, "batch"), message, f"up to {most}; {nevertheless}")
        return
    accepted = "a smaller model, or more NPUs" if workload.file.is_distributed else "a smaller model"
    if len(path) == 1 and not workload.file.is_distributed:
        request = as_divided(experiment, workload, workload.batch * experiment.ranks)
        found = fit.first_that_fits(request, available)
        accepted = f"in place of batch, global_batch: {request.workload.global_batch}"
        accepted += ", with more NPUs" if found is None else f" and {_division(request, found)}"
    yield Violation((*path, "model"), message, f"{accepted}; {nevertheless}")


def most_samples(experiment: Experiment, workload: ModelWorkload) -> int | None:
    """The most samples of which an NPU can keep the activations, beside a copy of the model; None if its memory is not
    known.
    """
    if experiment.npu.available is None:
        return None
    needed = of_experiment(experiment, workload)
    return _samples(workload, needed, experiment.npu.available)


def _samples(workload: ModelWorkload, needed: Memory, available: int) -> int:
    """How many samples fit, given what those of the batch need: activations are proportional to them."""
    left = available - (needed.total - needed.activations)
    return max(0, left) * workload.batch // max(1, needed.activations)


def of_experiment(experiment: Experiment, workload: ModelWorkload) -> Memory:
    """The memory of an NPU of an experiment that trains copies of a model."""
    loop = experiment.training
    return of_copies(workload, experiment.ranks, update=loop.update, run=Execution.of(experiment.npu, loop))


def of_copies(workload: ModelWorkload, ranks: int, *, update: bool, run: Execution = AS_IT_IS) -> Memory:
    """The memory of an NPU of so many that train copies of a model; of one with tables, each has a share of these."""
    model, element, tables = workload.evaluated, workload.element, 0
    if workload.file.is_distributed:
        tables = -(-element * counts.of_layer(model.layers[0]) // ranks)
        model = replace(model, layers=model.layers[1:])
    parallel = Parallel(optimiser=Optimiser(kind="sgd"))
    widths = Widths(element, element, element, 0 if element >= WIDE else WIDE, max(WIDE, element))
    costs = Costs(element, workload.linear_element)
    setting = Setting(
        training.shared(model),
        parallel,
        Mesh.of(parallel, 1),
        costs,
        1,
        costs_update=update,
        has_copies=True,
        given=widths,
        kernels=run.kernels or "eager",
        fused_loss=run.fused_loss,
        workspace=run.workspace,
    )
    (found,) = memory.of(setting)
    return replace(found, weights=found.weights + tables)


def as_divided(experiment: Experiment, workload: ModelWorkload, samples: int) -> Request:
    """The training of a model that all NPUs have copies of, as one that is to be divided, with so many samples in an
    iteration.
    """
    given = {name: getattr(workload, name) for name in ("model", "parameters", "sequence", "element", "precision")}
    divided = DividedWorkload.model_construct(**given, global_batch=samples)
    members = experiment.members if experiment.groups is None else None
    return Request.of(divided, Parallel(), experiment.training, experiment.topology, members).on(experiment.npu)


def _terms(needed: Memory) -> str:
    terms = ", ".join(f"{name} {in_gb(size)}" for name, size in needed.terms().items() if size)
    when = " when weights are updated" if needed.phase == "update" else ""
    return f"{in_gb(needed.total)}{when}: {terms}"


def _has(npu: Npu) -> str:
    """What an NPU has for a model."""
    assert npu.memory is not None
    assert npu.available is not None
    if not npu.reserved:
        return f"it has {in_gb(npu.memory)} (npu.memory)"
    return f"it has {in_gb(npu.available)}: {in_gb(npu.memory)} (npu.memory) less {in_gb(npu.reserved)} (npu.reserved)"


def _nevertheless(npu: Npu, needed: int) -> str:
    """What simulates it all the same."""
    return f"or npu.memory: {ceil((needed + npu.reserved) / GB)}GB, to simulate it nevertheless"


def _division(request: Request, found: fit.Candidate) -> str:
    """What a division that fits has in place of what is asked for."""
    return f"parallel: {{{fit.changes(request, found)}}}, which needs {in_gb(found.needed.total)}"
