"""What becomes of gradients: exchange among the copies of a model, update of the weights, and their way back.

    no server    all-reduce (ZeRO 0), or reduce-scatter and, behind the update, all-gather (ZeRO 1 and 2); with ZeRO 3
                 weights are gathered layer by layer (`stage`)
    central      reduce to the first NPU, update there, broadcast
    sharded      reduce-scatter, update of a part, all-gather
    asynchronous a message of gradients to each server, which updates and answers with weights, whatever others do

With groups that have copies of each other's parts (HSDP), collectives are those within a group, and each NPU's part of
the gradients is all-reduced between groups once, behind the last micro-batch.

ZeRO 1 has the traffic of 2 in an iteration of one micro-batch. With several, 2 divides the gradients of each
micro-batch, since no NPU has room to add up whole ones (Rajbhandari et al., "ZeRO", SC 2020, sections 5 and 7).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from syncline.strategies import copies
from syncline.strategies.mesh import REPLICA
from syncline.strategies.nodes import UPDATE, WEIGHT_GRAD, Message, Nodes
from syncline.strategies.setting import Role, Setting
from syncline.strategies.weights import Weights


def buckets(sizes: Sequence[int], bucket: int | None, first: int | None) -> list[range]:
    """Layers whose gradients are exchanged together, from the first layer on: each full once it has so many bytes."""
    if bucket is None:
        return [range(number, number + 1) for number in range(len(sizes))]
    found: list[range] = []
    start, size = 0, 0
    for number, more in enumerate(sizes):
        size += more
        if size >= (bucket if found else first or bucket):
            found.append(range(start, number + 1))
            start, size = number + 1, 0
    return [*found, range(start, len(sizes))] if start < len(sizes) else found


@dataclass
class Bucket:
    """Layers of a chunk whose gradients are exchanged together."""

    number: int
    """Among those of the stage."""
    layers: range
    weights: Weights
    name: str
    """Its first layer, to which its exchange is accounted."""


@dataclass
class Gradients:
    """The gradients of a stage on one NPU."""

    setting: Setting
    role: Role
    nodes: Nodes
    chunks: Sequence[Sequence[Bucket]]
    """The buckets of each chunk, the one of the first layers first."""
    is_last: bool = True
    """Whether gradients are those of the last micro-batch, behind which groups exchange the sums of all."""
    reduced: list[int] = field(default_factory=list)
    """Exchanges that the update waits for."""
    held_back: list[Bucket] = field(default_factory=list)
    """Buckets that are exchanged behind back-propagation."""
    ready: dict[int, list[int]] = field(default_factory=dict)
    """By bucket: the nodes that bring its weights up to date, for which the next iteration waits."""

    @property
    def _copies(self) -> int:
        return self.setting.mesh.size("expert", "data", "context")

    @property
    def _serves(self) -> bool:
        return self.setting.parallel.parameter_server != "none" and self._copies > 1

    def complete(self, chunk: int, layer: int) -> None:
        """The gradients of a layer are there, and those of all behind it in its chunk."""
        bucket = next((b for b in self.chunks[chunk] if b.layers.start == layer), None)
        if bucket is None:
            return
        if self.setting.overlap:
            self._exchange(bucket)
        else:
            self.held_back.append(bucket)

    def _exchange(self, bucket: Bucket) -> None:
        self.nodes.layer = bucket.name
        if self._serves:
            self._serve(bucket)
            return
        kind = "reduce-scatter" if self.setting.parallel.zero else "all-reduce"
        self.nodes.compute(WEIGHT_GRAD, copies.before_scatter(self.setting, bucket.weights))
        after = self.nodes.ready()
        for family, parameters in self.setting.parts(bucket.weights):
            size = parameters * self.setting.gradient
            number = self.nodes.collective(WEIGHT_GRAD, family, kind, size, after)
            self.reduced += [] if number is None else [self._between_groups(number, family, parameters)]

    def _between_groups(self, number: int, family: str, parameters: int) -> int:
        """Sums this NPU's part of the gradients over groups, once they are complete. Returns what is then done."""
        size = -(-parameters // self.setting.copies(family)) * self.setting.gradient
        summed = self.nodes.collective(WEIGHT_GRAD, REPLICA, "all-reduce", size, [number]) if self.is_last else None
        return number if summed is None else summed

    def _serve(self, bucket: Bucket) -> None:
        central = self.setting.parallel.parameter_server == "central"
        if self.setting.parallel.updates == "asynchronous":
            self.ready[bucket.number] = self._answered(bucket, central=central)
            return
        there, back = ("reduce", "broadcast") if central else ("reduce-scatter", "all-gather")
        size, weight = bucket.weights.total * self.setting.gradient, bucket.weights.total * self.setting.weight
        reduced = self.nodes.collective(WEIGHT_GRAD, "data", there, size, self.nodes.ready())
        after = [] if reduced is None else [reduced]
        if not central or self.role.serves:
            after = self._updated(bucket, 1 if central else self._copies, after)
        brought = self.nodes.collective(UPDATE, "data", back, weight, after)
        self.ready[bucket.number] = [] if brought is None else [brought]

    def _updated(self, bucket: Bucket, parts: int, after: list[int]) -> list[int]:
        """Updates a part of a bucket on the stream of the server, and returns what is then done."""
        kernels = self.setting.updates(-(-bucket.weights.total // parts))
        return [self.nodes.beside(UPDATE, kernels, after)] if kernels else after

    def _answered(self, bucket: Bucket, *, central: bool) -> list[int]:
        """Gradients to servers and weights from them, message by message; serves the others as they come."""
        setting, nodes, copies = self.setting, self.nodes, self._copies
        parts = 1 if central else copies
        part = -(-bucket.weights.total // parts)
        push, pull = 2 * bucket.number, 2 * bucket.number + 1
        gradients, weights = part * setting.gradient, part * setting.weight
        ready = nodes.ready()
        others = range(1, copies)
        servers, clients = list(others), [-distance for distance in others]
        if central:
            servers, clients = ([], list(others)) if self.role.serves else ([-self.role.copy], [])
        done = self._updated(bucket, parts, ready) if not central or self.role.serves else []
        for server in servers:
            nodes.message(WEIGHT_GRAD, "send", Message("data", server, push, gradients), ready)
            done.append(nodes.message(UPDATE, "recv", Message("data", server, pull, weights)))
        for client in clients:
            got = nodes.message(WEIGHT_GRAD, "recv", Message("data", client, push, gradients))
            nodes.message(UPDATE, "send", Message("data", client, pull, weights), self._updated(bucket, parts, [got]))
        return done

    def flush(self) -> None:
        """Exchanges what was held back, and has the main stream wait for it."""
        for bucket in self.held_back:
            self._exchange(bucket)
        if self.held_back:
            self.nodes.wait(*self.reduced)
        self.held_back = []

    def update(self, *, tied: bool = True) -> int | None:
        """Exchanges what was held back, updates the weights on the main stream once all gradients are reduced, and has
        them gathered. Returns the update, if there is one.
        """
        setting, nodes = self.setting, self.nodes
        self.flush()
        every = [bucket for chunk in self.chunks for bucket in chunk]
        weights = sum((bucket.weights for bucket in every), Weights())
        first = every[0].name
        # The stages that share a table account its one exchange to the same layer, the first that has it.
        shared = setting.model.tied[0][0] if setting.model.tied else first
        nodes.layer = first
        before = [*nodes.ready(), *self.reduced]
        exchanged = (("tensor", weights.whole, first), ("embedding", weights.tied if tied else 0, shared))
        for family, parameters, nodes.layer in exchanged:
            number = nodes.collective(WEIGHT_GRAD, family, "all-reduce", parameters * setting.gradient, before)
            nodes.wait(number)
        nodes.layer = first
        nodes.wait(*self.reduced)
        self.reduced = []
        if self._serves:
            if not setting.overlap:
                nodes.wait(*(number for done in self.ready.values() for number in done))
                nodes.meet(UPDATE)
            return None
        updated = nodes.compute(UPDATE, setting.updates(setting.held(weights, divided=setting.parallel.zero >= 1)))
        if nodes.pending or updated is None:
            updated = nodes.meet(UPDATE)
        if setting.parallel.zero in (1, 2):
            self._gather(every)
        return updated

    def _gather(self, every: Sequence[Bucket]) -> None:
        """Brings the updated weights to all, those of the first layers first."""
        nodes = self.nodes
        after = nodes.ready()
        for bucket in every:
            nodes.layer = bucket.name
            for family, parameters in self.setting.parts(bucket.weights):
                gathered = nodes.gather(UPDATE, family, parameters * self.setting.weight, after)
                self.ready.setdefault(bucket.number, []).extend(gathered)
        if not self.setting.overlap:
            nodes.wait(*(number for done in self.ready.values() for number in done))
            nodes.meet(UPDATE)
