"""The candidates of a search: every combination of its axes that is legal, each with its memory.

What an axis says of nothing is dropped, so that a division is listed once: ZeRO without copies of weights, an order of
axes that one NPU has, chunks of layers without an interleaved schedule, sequence without tensor parallelism.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations, product
from typing import Any, Final

from syncline.base.errors import InputError
from syncline.base.section import Violation
from syncline.experiment.load import Variant
from syncline.sections.parallel import USUAL_ORDER, Parallel
from syncline.strategies import memory, training
from syncline.strategies.costs import Costs
from syncline.strategies.fit import divisors
from syncline.strategies.memory import Memory
from syncline.strategies.setting import Setting
from syncline.strategies.training import Request
from syncline.studies.searches.file import WAYS, WORDS, Search

MOST: Final = 1_000_000
"""Combinations of values that are looked at."""
FLUSHED: Final = ("gpipe", "1f1b", "interleaved")
"""Schedules with the meaning of synchronous training, which `auto` stands for."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A division of the training."""

    number: int
    base: Variant
    setting: Setting
    algorithm: str
    needed: Memory
    """The memory of an NPU of the stage that needs most."""
    available: int

    @property
    def fits(self) -> bool:
        """Whether its stages fit into the memory of NPUs."""
        return self.needed.total <= self.available

    @property
    def parallel(self) -> Parallel:
        """How it is divided."""
        return self.setting.parallel

    @property
    def npus(self) -> int:
        """NPUs that train."""
        return self.base.experiment.taking_part

    @property
    def name(self) -> str:
        """What people call it."""
        return ", ".join(f"{name}={value}" for name, value in self.values(("tensor", "context", "expert", "pipeline",
            "data", "micro_batch", "schedule", "virtual", "zero", "recompute", "sequence")).items())  # fmt: skip

    def values(self, axes: Sequence[str]) -> dict[str, Any]:
        """Its values on some axes."""
        own: dict[str, Any] = {"topology": str(self.base.experiment.topology), "algorithm": self.algorithm}
        own["order"] = " ".join(self.parallel.order)
        return {name: own[name] if name in own else getattr(self.parallel, name) for name in axes}

    def variant(self) -> Variant:
        """The experiment that it is."""
        experiment = self.base.experiment
        training = experiment.training
        if self.setting.brings_weights_later:  # the first iteration does not tell what a further one costs
            training = training.model_copy(update={"iterations": max(2, experiment.iterations)})
        changed: dict[str, Any] = {
            "training": training,
            "parallel": self.parallel,
            "collective": experiment.collective.with_algorithm(self.algorithm),
            "output": experiment.output.model_copy(update={"trace_npus": []}),
        }
        return replace(self.base, experiment=experiment.model_copy(update=changed))


@dataclass(slots=True)
class Space:
    """What a search looks at."""

    candidates: list[Candidate]
    combinations: int
    """Of values, legal or not."""
    illegal: int
    """Those that are no division of this training."""
    reason: str = ""
    """Why most of these are none, in the words of one of them."""


@dataclass(slots=True)
class _Known:
    """What divisions have in common: costs by what decides them."""

    costs: dict[tuple[Any, ...], Costs] = field(default_factory=dict)

    def shared(self, setting: Setting, key: tuple[Any, ...]) -> Setting:
        """The setting, with the costs of all whose layers are divided alike."""
        return replace(
            setting, costs=self.costs.setdefault((*key, setting.costs.cast, division(setting.parallel)), setting.costs)
        )


def division(parallel: Parallel) -> tuple[Any, ...]:
    """What decides how a layer is divided: equal for two divisions whose layers compute and exchange the same."""
    return (
        *(parallel.tensor, parallel.sequence, parallel.context, parallel.context_exchange, parallel.expert),
        *(tuple(parallel.expert_loads), parallel.recompute, tuple(parallel.recompute_operators)),
        *(parallel.overlap.tensor, parallel.micro_batch),
    )


def candidates(search: Search) -> Space:
    """All candidates, in the order of the axes. Raises [`InputError`] if there is none."""
    found: dict[tuple[Any, ...], Candidate] = {}
    known, combinations = _Known(), 0
    illegal: Counter[str] = Counter()
    first: tuple[Variant, Violation] | None = None
    for place, base in enumerate(search.bases):
        request = training.of(base.experiment)
        axes = _axes(search, request)
        for values in product(*axes.values()):
            combinations += 1
            if combinations > MOST:
                raise InputError([base.problem((), f"there are more than {MOST:,} combinations", "fewer values")])
            given = dict(zip(axes, values, strict=True))
            algorithm = given.pop("algorithm", base.experiment.collective.algorithm)
            parallel = _settled(request.parallel, given, request.npus, fixed="data" in axes)
            key = (place, algorithm, parallel.model_dump_json())
            if key in found:
                continue
            changed = replace(request, parallel=parallel)
            broken = next(changed.violations(), None)
            if broken is not None:
                illegal[broken.message] += 1
                first = first or (base, broken)
                continue
            setting = known.shared(changed.setting(), (place,))
            needed = max(memory.of(setting), key=lambda of_stage: of_stage.total)
            found[key] = Candidate(len(found), base, setting, algorithm, needed, search.available(base))
    if not found:
        assert first is not None
        variant, broken = first
        message = f"no combination is a division of this training; of the first one: {broken.message}"
        raise InputError([variant.problem(broken.path, message, broken.accepted)])
    reason = illegal.most_common(1)[0][0] if illegal else ""
    return Space(list(found.values()), combinations, illegal.total(), reason)


def _axes(search: Search, request: Request) -> dict[str, list[Any]]:
    """The values of each axis, those of `auto` included."""
    found = {}
    for axis, values in search.axes.items():
        found[axis] = _every(axis, request) if values == "auto" else list(values)
    return found


def _every(axis: str, request: Request) -> list[Any]:
    if axis in WAYS:
        return divisors(request.npus)
    if axis == "virtual":
        blocks = sum(layer.block for layer in request.model(1).layers)
        return divisors(max(1, blocks))
    if axis == "micro_batch":
        return divisors(request.workload.global_batch)
    if axis == "zero":
        return [0, 1, 2, 3]
    if axis == "sequence":
        return [False, True]
    if axis == "order":
        return [list(order) for order in permutations(USUAL_ORDER)]
    return list(FLUSHED if axis == "schedule" else WORDS[axis])


def _settled(given: Parallel, values: dict[str, Any], npus: int, *, fixed: bool) -> Parallel:
    """The division of these values, without what they say of nothing."""
    changed: dict[str, Any] = dict(values)
    if not fixed:
        changed["data"] = None
    if given.on and any(axis in values for axis in WAYS):
        changed["on"] = {}
    parallel = given.model_copy(update=changed)
    ways = parallel.tensor * parallel.context * parallel.pipeline
    data = npus // ways if npus % ways == 0 else 0
    drop: dict[str, Any] = {}
    if parallel.tensor == 1:
        drop |= {"sequence": False, "scatter_gather": False}
    if parallel.pipeline == 1:
        drop |= {"scatter_gather": False}
        if parallel.schedule != "pipedream":
            drop |= {"schedule": "1f1b", "virtual": 1}
    elif parallel.schedule != "interleaved" and ("virtual" in values or "schedule" in values):
        drop |= {"virtual": 1}
    if data * parallel.context == 1 and data:
        drop |= {"zero": 0}
    if "order" in values and not parallel.on and data:
        sizes = {"tensor": parallel.tensor, "context": parallel.context, "data": data, "pipeline": parallel.pipeline}
        alone = [axis for axis in USUAL_ORDER if sizes[axis] == 1]
        drop |= {"order": [*(axis for axis in parallel.order if sizes[axis] > 1), *alone]}
    return parallel.model_copy(update=drop)
