"""Between an experiment and its division: what is wrong with it, and its graphs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from syncline.base.errors import InputError, one_of
from syncline.base.quantities import SIZE
from syncline.base.section import Violation
from syncline.fabric.groups import Members
from syncline.fabric.topologies import Fabric
from syncline.fabric.topology import Topology
from syncline.models.evaluate import ParameterError, evaluate
from syncline.models.model import Layer, Model, Operator
from syncline.sections.collective import Collective
from syncline.sections.execution import Execution
from syncline.sections.npu import Npu
from syncline.sections.parallel import FamilyName, Parallel
from syncline.sections.wording import violations
from syncline.sections.workloads import DividedWorkload, Training
from syncline.strategies import build, checks
from syncline.strategies.build import Divided
from syncline.strategies.costs import Costs
from syncline.strategies.mesh import Mesh
from syncline.strategies.setting import GATHERING, Setting

if TYPE_CHECKING:
    from syncline.sections.experiment import Experiment


@dataclass(frozen=True)
class Request:
    """What a division follows from."""

    workload: DividedWorkload
    parallel: Parallel
    training: Training
    npus: int
    """How many train."""
    sizes: tuple[int, ...] | None
    """Those of a product topology."""
    numbers: tuple[int, ...] | None = None
    """The numbers of those that train, if that is not the whole machine."""
    execution: Execution = field(default_factory=Execution)
    """How an NPU runs the model."""

    @classmethod
    def of(
        cls,
        workload: DividedWorkload,
        parallel: Parallel,
        training: Training,
        fabric: Fabric,
        members: Members | None = None,
    ) -> Request:
        """Of the sections of an experiment; `members` are the NPUs that take part, all in one group."""
        sizes = tuple(dim.size for dim in fabric.dims) if isinstance(fabric, Topology) else None
        npus, numbers = (fabric.npus, None) if members is None else (len(members[0]), tuple(members[0]))
        return cls(workload, parallel, training, npus, sizes, numbers)

    def on(self, npu: Npu) -> Request:
        """The same on such NPUs, with the kernels of a framework if their compute model knows these."""
        return replace(self, execution=Execution.of(npu, self.training))

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells it from others."""
        sections = (section.model_dump_json() for section in (self.workload, self.parallel, self.training))
        return (*sections, self.workload.file.content, self.npus, self.sizes, self.numbers, self.execution)

    def model(self, samples: int) -> Model:
        """The model, evaluated for a micro-batch of so many samples. Raises as `models.evaluate`."""
        workload = self.workload
        parameters = tuple(sorted(workload.parameters.items()))
        fused = self.execution.fused
        key = (str(workload.model), workload.file.content, samples, workload.sequence, parameters, fused)
        if key not in _models:
            if len(_models) >= MOST_MODELS:
                _models.clear()
            evaluated = evaluate(workload.file, samples, workload.sequence, workload.parameters)
            _models[key] = shared(self.execution.model(evaluated))
        return _models[key]

    def setting(self) -> Setting:
        """The training, whose ways are right."""
        workload, training = self.workload, self.training
        parallel, execution = checks.settled(self.parallel, self.npus, self.sizes), self.execution
        if parallel.optimiser.implementation is None:
            optimiser = parallel.optimiser.model_copy(update={"implementation": execution.optimiser})
            parallel = parallel.model_copy(update={"optimiser": optimiser})
        cast = _cast(workload, parallel)
        model = self.model(parallel.micro_batch)
        framework = execution.framework(workload.widths, model, workload.layout, casts_whole=cast is not None)
        micros = workload.global_batch // ((parallel.data or 1) * parallel.micro_batch)
        # Megatron-LM's products add to gradients themselves; what ZeRO 2 divides is added once it is divided.
        adds = execution.kernels in ("eager", "compile") and micros > 1 and parallel.zero < DIVIDING
        added = workload.widths.gradients if adds else 0
        return Setting(
            model=model,
            parallel=parallel,
            mesh=Mesh.of(parallel, self.npus, self.sizes, self.numbers),
            costs=Costs(workload.element, workload.linear_element, framework, cast, added),
            micros=micros,
            bucket=training.bucket,
            first_bucket=training.first_bucket,
            overlap=training.overlap,
            costs_update=training.update,
            host_kernel_time=execution.host_kernel_time,
            given=workload.widths,
            kernels=execution.kernels or "eager",
            fused_loss=execution.fused_loss,
            workspace=execution.workspace,
        )

    def violations(self) -> Iterator[Violation]:
        """What is wrong with it; of rules that build on others, those only that can be asked."""
        if self.workload.file.is_distributed:
            message = f"no NPU holds all tables of {self.workload.model}, and parallel does not divide tables"
            yield Violation(("workload", "model"), message, "workload.batch in place of global_batch, or another model")
            return
        if self.workload.element not in ELEMENTS:
            accepted = one_of(SIZE.format(size) for size in ELEMENTS)
            yield Violation(("workload", "element"), "operators have no elements of this size", accepted)
            return
        found = [*checks.of_ways(self.parallel, self.npus, self.sizes)]
        if not found:
            parallel = checks.settled(self.parallel, self.npus, self.sizes)
            found += checks.of_rules(parallel)
            found += checks.of_batch(parallel, self.workload.global_batch, self.training.iterations or 1)
        yield from found
        try:
            model = self.model(self.parallel.micro_batch)
        except (ParameterError, InputError):
            return  # which is said where models are read
        if found:
            return
        found = [*checks.of_model(parallel, model)]
        if not found:
            setting = self.setting()
            programs = sum(1 for _ in build.roles(setting))
            found = [*checks.of_graph(parallel, model, setting.micros, programs)]
        yield from found


ELEMENTS: Final = (1, 2, 4, 8)
"""Bytes of elements for which the engine knows what operators ask (`crates/workload/src/described/request.rs`)."""
DIVIDING: Final = 2
"""The stage of ZeRO that divides gradients."""
MOST_MODELS: Final = 64
_models: Final[dict[tuple[object, ...], Model]] = {}
"""Models that have been evaluated, since a search asks for the same ones again and again."""


def _cast(workload: DividedWorkload, parallel: Parallel) -> tuple[int, int] | None:
    """Bytes of a stored weight and of its gradient, where each NPU casts whole weights before it uses them."""
    widths = workload.widths
    return (widths.weights, widths.reduced) if widths.casts and parallel.zero < GATHERING else None


def shared(model: Model) -> Model:
    """The model, with the operators of equal layers as one object: what follows from them is worked out once."""
    kept: list[tuple[Operator, ...]] = []

    def of_layer(layer: Layer) -> Layer:
        found = next((operators for operators in reversed(kept) if operators == layer.operators), None)
        if found is None:
            kept.append(layer.operators)
            return layer
        return replace(layer, operators=found)

    return replace(model, layers=tuple(of_layer(layer) for layer in model.layers))


def in_gb(size: int) -> str:
    """Bytes as people read them."""
    return f"{size / 1e9:,.2f} GB" if size >= 10**7 else SIZE.format(size)


def of(experiment: Experiment) -> Request:
    """The request of an experiment whose workload is one."""
    workload, fabric = experiment.workload, experiment.topology
    assert isinstance(workload, DividedWorkload)
    request = Request.of(workload, experiment.parallel, experiment.training, fabric, experiment.members)
    return request.on(experiment.npu)


def divided(experiment: Experiment) -> Divided:
    """The graphs of an experiment."""
    return _divided(_Keyed(of(experiment)))


@dataclass(frozen=True, eq=False)
class _Keyed:
    """A request, equal to others that say the same."""

    request: Request

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Keyed) and self.request.key == other.request.key

    def __hash__(self) -> int:
        return hash(self.request.key)


def forget() -> None:
    """Drops the graphs that are kept for those who ask again; of large trainings they take gigabytes."""
    _divided.cache_clear()


@lru_cache(maxsize=8)
def _divided(keyed: _Keyed) -> Divided:
    return build.graph(keyed.request.setting())


def broken_collectives(given: Mapping[FamilyName, Mapping[str, Any]]) -> Iterator[Violation]:
    """What is wrong with how collectives of single axes are carried out."""
    for name, keys in given.items():
        path = ("parallel", "collectives", name)
        try:
            collective = Collective.model_validate(dict(keys))
        except ValidationError as error:
            yield from violations(error, path)
            continue
        if collective.algorithm == "auto" or "auto" in collective.algorithms.values():
            yield Violation((*path, "algorithm"), "algorithms of axes are not chosen", "the name of one")
        if collective.plan:
            yield Violation((*path, "plan"), "axes have no plans", "an algorithm")
