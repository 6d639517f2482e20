"""What an iteration of a candidate takes: at least (the bound), and about (the estimate).

The bound is proven by construction. For each stage s, with F and B the time of a forward and a backward pass of a
micro-batch through a stage, of the layers of its first chunk for the stages before s:

    m (F_s + B_s) + sum over r < s of (F_r + B_r + 2 M) + U_0

The first forward pass of a stage waits for one through all stages before it, and its last backward pass is followed by
one through all of these, whatever the schedule is; between the two it computes all m micro-batches, one pass after the
other, and stage 0 updates its weights (U) behind. Iterations of stage 0 follow one another, so this holds for each.

F and B are kernels under the experiment's compute model, and collectives that are waited for in line, at what must
reach an NPU over all its links together: S of an all-reduce of size S among n NPUs, S (n - 1) / n of an all-gather or
all-to-all, S / n of a reduce-scatter. M is a message between stages at that rate. On the analytical backend messages
share links without slowing each other, so communication counts for nothing there.

The estimate has collectives as long as they take by themselves with their algorithm (`alone`), or where that is not
known at the rates of `rates`, with the endpoint `nccl` as long as its model of software says (`pricing`); messages; and
what gradients and weights take beyond the compute that they are beside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from syncline.engine import pricing, specification
from syncline.engine.runs import PS_PER_S
from syncline.experiment.load import Variant
from syncline.models import times
from syncline.models.demands import Kernel
from syncline.models.model import Layer
from syncline.strategies import build, copies, weights
from syncline.strategies.costs import Kernels
from syncline.strategies.layers import Communicate, Compute, Exchange, LayerPasses, Ring, Step
from syncline.strategies.mesh import REPLICA
from syncline.strategies.setting import Setting
from syncline.strategies.weights import Weights
from syncline.studies.searches.alone import Alone
from syncline.studies.searches.rates import Rates
from syncline.studies.searches.space import Candidate, division


@dataclass(frozen=True, slots=True)
class Predicted:
    """What an iteration takes, in picoseconds."""

    bound: int
    """At least."""
    estimate: int
    """About."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a pass takes, in picoseconds."""

    compute: float = 0
    least: float = 0
    """Of communication in line, at least."""
    exposed: float = 0
    """Of communication that is waited for, about."""

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.compute + other.compute, self.least + other.least, self.exposed + other.exposed)

    @property
    def bound(self) -> float:
        """At least."""
        return self.compute + self.least

    @property
    def about(self) -> float:
        """About."""
        return self.compute + self.exposed


@dataclass(frozen=True, slots=True)
class _Stage:
    """The passes of a micro-batch through a stage, and through its first chunk."""

    forward: Cost
    backward: Cost
    first_forward: Cost
    first_backward: Cost
    update: float
    weights: Weights
    ahead: tuple[tuple[tuple[float, Weights], ...], ...]
    """What the forward pass of each layer computes, and its weights, by chunk, in the order of the forward pass."""
    back: tuple[tuple[float, Weights], ...]
    """What the backward pass of each layer computes, and its weights, in the order of the backward pass."""

    @property
    def both(self) -> Cost:
        return self.forward + self.backward

    @property
    def first(self) -> Cost:
        return self.first_forward + self.first_backward


@dataclass(slots=True)
class Predictor:
    """Predicts the candidates of one experiment on one topology; what divisions have in common is worked out once."""

    base: Variant
    algorithm: str = ""
    """What all candidates have in place of the algorithm of the experiment, if that is another one."""
    rates: Rates = field(init=False)
    fastest: int | None = field(init=False)
    """Bytes per second that can reach an NPU; None if nothing bounds them."""
    _alone: Alone = field(init=False)
    _priced: pricing.Alone | None = field(init=False, default=None)
    """What the software model says, where collectives and messages cost that."""
    _compute: dict[str, Any] = field(init=False)
    _rates_alone: dict[tuple[object, ...], float | None] = field(default_factory=dict)
    _modelled: dict[tuple[object, ...], float] = field(default_factory=dict)
    _kernels: dict[Kernel, int] = field(default_factory=dict)
    _layers: dict[tuple[object, ...], tuple[Cost, Cost]] = field(default_factory=dict)
    _stages: dict[tuple[object, ...], list[list[_Stage]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        experiment = self.base.experiment
        self.rates = Rates(experiment.topology)
        self._alone = Alone(self.base)
        if experiment.endpoint.is_priced:
            self._priced = pricing.Alone(experiment)
        bounded = experiment.network.backend != "analytical" and not experiment.slow_links
        self.fastest = (experiment.topology.fastest or None) if bounded else None
        self._compute = specification.compute_model(experiment)
        if "power" in self._compute["model"]:
            # The clock follows from all kernels of an iteration; at the full one none takes longer than in a run.
            self._compute["model"]["power"] = None

    def of(self, candidate: Candidate) -> Predicted:
        """The bound and the estimate of a candidate of this experiment."""
        setting = candidate.setting
        stages = self._of_stages(setting)
        factors = [straggler.factor for straggler in self.base.experiment.training.stragglers]
        least = max(self._bound(of_rank, setting) for of_rank in stages) * min([1.0, *factors])
        about = max(self._estimate(of_rank, setting) for of_rank in stages) * max([1.0, *factors])
        bound = int(least)
        return Predicted(bound, max(bound, round(about)))

    # Bound and estimate

    def _bound(self, stages: Sequence[_Stage], setting: Setting) -> float:
        hop = self._received(setting.activation // self._parts(setting))
        before = best = 0.0
        micros = setting.micros
        between = micros - 1 if setting.is_pipedream else 0
        for stage in stages:
            through = micros * stage.both.bound + between * stage.update
            best = max(best, before + through + stages[0].update, through + stage.update)
            before += stage.first.bound + 2 * hop
        return best

    def _estimate(self, stages: Sequence[_Stage], setting: Setting) -> float:
        micros = setting.micros
        size = setting.activation // self._parts(setting)
        hop = self._message(setting, ("pipeline",), size) if len(stages) > 1 else 0.0
        before = best = 0.0
        updates = micros if setting.is_pipedream else 1
        for stage in stages:
            gradients = self._of_gradients(stage, setting)
            gradients += self._shared(stage, setting) + self._brought(stage, setting)
            through = micros * (stage.both.about + self._gathered(stage, setting)) + updates * stage.update + gradients
            best = max(best, before + through)
            before += stage.first.about + 2 * hop
        return best

    def _of_gradients(self, stage: _Stage, setting: Setting) -> float:
        """What the exchange of gradients takes beyond the backward pass that it is beside."""
        zero, family = setting.parallel.zero, self.rates.along(setting.mesh, build.FAMILIES["data"])
        if family.ranks == 1:
            return 0.0
        kind = "reduce-scatter" if zero else "all-reduce"
        ready = done = last = 0.0
        for computed, held in stage.back:  # one exchange after the other, each when its gradients are there
            ready += computed if setting.overlap else 0.0
            size = held.total * setting.gradient
            taken = self._collective(setting, "data", kind, size) if size else 0.0
            between = self._collective(setting, REPLICA, "all-reduce", -(-size // family.ranks)) if size else 0.0
            done, last = max(done, ready) + taken, max(last, ready) + taken + between
        exposed, passes = max(0.0, done - ready), setting.micros if zero >= 2 else 1
        if setting.mesh.size(REPLICA) == 1:
            return exposed * passes
        return max(0.0, last - ready) + exposed * (passes - 1)

    def _brought(self, stage: _Stage, setting: Setting) -> float:
        """What the weights behind an update (ZeRO 1 and 2) take beyond the forward pass that they are beside: that of
        the next iteration, of which each layer waits for its own. A stage of several chunks computes one for as many
        micro-batches as there are stages before it comes to the next.
        """
        parallel = setting.parallel
        if parallel.zero not in (1, 2):
            return 0.0
        turns = parallel.pipeline if parallel.virtual > 1 else 1
        computed = brought = waited = 0.0
        for chunk in stage.ahead:
            for ahead, held in chunk:  # one gather after the other
                size = held.total * setting.element
                brought += self._collective(setting, "data", "all-gather", size) if size else 0.0
                waited = max(waited, brought - computed)
                computed += ahead if setting.overlap else 0.0
            computed += (turns - 1) * sum(ahead for ahead, _ in chunk) if setting.overlap else 0.0
        return waited

    def _shared(self, stage: _Stage, setting: Setting) -> float:
        """What gradients of weights take that other NPUs have, too: the first and the last stage, or those of tensor
        parallelism, which add them when all others are there.
        """
        of_tied = stage.weights.tied * setting.gradient
        tied = self._message(setting, ("pipeline",), of_tied) if of_tied else 0.0
        whole = stage.weights.whole * setting.gradient
        return tied + (self._collective(setting, "tensor", "all-reduce", whole) if whole else 0.0)

    def _gathered(self, stage: _Stage, setting: Setting) -> float:
        """With ZeRO 3, what the weights of a micro-batch, and copies around collectives, take beyond its compute."""
        if setting.parallel.zero != 3:
            return 0.0
        gather = self._collective(setting, "data", "all-gather", stage.weights.total * setting.element)
        copied = copies.before_gather(setting, stage.weights) + copies.behind_gather(setting, stage.weights)
        of_passes = sum(self._time(copied) + max(0.0, gather - of.compute) for of in (stage.forward, stage.backward))
        return of_passes + self._time(copies.before_scatter(setting, stage.weights))

    # Stages and layers

    def _of_stages(self, setting: Setting) -> list[list[_Stage]]:
        """The stages, for each rank among experts where these have different loads."""
        parallel = setting.parallel
        key: tuple[object, ...] = (division(parallel), parallel.pipeline, parallel.virtual, parallel.parameter_server)
        key = (*key, parallel.zero >= 1, setting.mesh)
        if key not in self._stages:
            ranks: list[int | None] = [*range(parallel.expert)] if parallel.expert_loads else [None]
            self._stages[key] = [self._of_rank(setting, rank) for rank in ranks]
        return self._stages[key]

    def _of_rank(self, setting: Setting, rank: int | None) -> list[_Stage]:
        parallel = setting.parallel
        passes = LayerPasses(parallel, setting.costs, rank)
        found = []
        for pieces in weights.placed(setting.model, parallel.pipeline, parallel.virtual):
            of_chunks = weights.of_stage(setting.model, pieces, parallel, setting.costs)
            held = sum((of_layer for of_chunk in of_chunks for of_layer in of_chunk), Weights())
            # A parameter server updates beside the passes, so that nothing is sure to wait for it.
            served = parallel.parameter_server != "none"
            kernels = () if served else setting.updates(setting.held(held, divided=parallel.zero >= 1))
            chunks = [[self._layer(layer, passes, setting, rank) for layer in piece] for piece in pieces]
            costs = [cost for chunk in chunks for cost in chunk]
            whole, first = _passes(costs), _passes(chunks[0])
            each = [of_layer for of_chunk in of_chunks for of_layer in of_chunk]
            backward = tuple((cost[1].compute, own) for cost, own in zip(reversed(costs), reversed(each), strict=True))
            ahead = tuple(
                tuple((cost[0].compute, own) for cost, own in zip(*chunk, strict=True))
                for chunk in zip(chunks, of_chunks, strict=True)
            )
            found.append(_Stage(*whole, *first, self._time(kernels), held, ahead, backward))
        return found

    def _layer(self, layer: Layer, passes: LayerPasses, setting: Setting, rank: int | None) -> tuple[Cost, Cost]:
        key = (id(layer.operators), layer.block, division(setting.parallel), rank, setting.mesh)
        if key not in self._layers:
            steps = passes.steps(layer)
            self._layers[key] = (self._steps(steps.forward, setting), self._steps(steps.backward, setting))
        return self._layers[key]

    def _steps(self, steps: Sequence[Step], setting: Setting) -> Cost:
        found, beside = Cost(), 0.0
        for step in steps:
            match step:
                case Compute():
                    taken = self._time(step.kernels)
                    found += Cost(compute=taken)
                    beside = max(0.0, beside - taken)
                case Ring():
                    taken = self._time(step.kernels)
                    on = self._message(setting, ("context",), step.passing + step.returning)
                    found += Cost(taken * step.blocks, 0, (step.blocks - 1) * max(0.0, on - taken))
                case Communicate():
                    family = self.rates.along(setting.mesh, build.FAMILIES[step.family])
                    about = self._collective(setting, step.family, step.kind, step.size)
                    if step.blocks:
                        least = self._received(_arriving(step.kind, step.size, family.ranks))
                        found += Cost(0, least, about)
                    else:
                        beside += about
                case Exchange():
                    size = max(sum(row) for row in step.sizes)
                    found += Cost(exposed=self._collective(setting, "expert", "all-to-all", size))
                case _:
                    found += Cost(exposed=beside)
                    beside = 0.0
        return found + Cost(exposed=beside)

    def _collective(self, setting: Setting, family: str, kind: str, size: int) -> float:
        """Picoseconds of a collective by its algorithm, and by rates where that is not known."""
        axes = build.FAMILIES[family]
        by_rate = self.rates.along(setting.mesh, axes)
        if by_rate.ranks == 1:
            return 0.0
        if self._priced is not None:
            return self._of_model(setting, axes, kind, size)
        key = (setting.mesh, family, kind, setting.parallel.parameter_server)
        if key not in self._rates_alone:
            usual = self.base.experiment.collective
            usual = usual.with_algorithm(self.algorithm or usual.algorithm)
            collective = specification.along(usual, setting.parallel, family)
            self._rates_alone[key] = self._alone.rate(setting.mesh, axes, kind, collective)
        rate = self._rates_alone[key]
        return by_rate.collective(kind, size) if rate is None else size / rate

    def _message(self, setting: Setting, axes: tuple[str, ...], size: int) -> float:
        """Picoseconds of a message between neighbours."""
        by_rate = self.rates.along(setting.mesh, axes)
        if self._priced is None or by_rate.ranks == 1:
            return by_rate.message(size)
        return self._of_model(setting, axes, "sendrecv", size)

    def _of_model(self, setting: Setting, axes: tuple[str, ...], kind: str, size: int) -> float:
        """Picoseconds by the software model."""
        assert self._priced is not None
        key = (setting.mesh, axes, kind, size)
        if key not in self._modelled:
            groups = setting.mesh.groups(*axes)
            pairs = [pair for group in groups for pair in pairwise(group)] if kind == "sendrecv" else groups
            self._modelled[key] = self._priced.time(pairs, kind, size)
        return self._modelled[key]

    def _time(self, kernels: Kernels) -> float:
        missing = list(dict.fromkeys(kernel for kernel in kernels if kernel not in self._kernels))
        if missing:
            answers = times.of(self._compute, missing)
            self._kernels |= {kernel: answer.time_ps for kernel, answer in zip(missing, answers, strict=True)}
        return float(sum(self._kernels[kernel] for kernel in kernels))

    def _received(self, size: int) -> float:
        """Picoseconds in which so many bytes can reach an NPU, at least."""
        return 0.0 if self.fastest is None else float(size * PS_PER_S // self.fastest)

    @staticmethod
    def _parts(setting: Setting) -> int:
        parallel = setting.parallel
        return parallel.tensor if parallel.sequence or parallel.scatter_gather else 1


def _passes(layers: Sequence[tuple[Cost, Cost]]) -> tuple[Cost, Cost]:
    """A forward and a backward pass through layers."""
    forward, backward = (sum((of_layer[way] for of_layer in layers), Cost()) for way in (0, 1))
    return forward, backward


def _arriving(kind: str, size: int, ranks: int) -> int:
    """Bytes that reach each NPU in a collective, whatever the algorithm is: what it ends with and did not have."""
    if ranks == 1:
        return 0
    if kind == "all-reduce":
        return size
    return size // ranks if kind == "reduce-scatter" else size * (ranks - 1) // ranks
