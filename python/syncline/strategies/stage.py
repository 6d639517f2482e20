"""The program of a class of NPUs: what a stage of the pipeline computes and says in an iteration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from syncline.strategies import copies, schedules, weights
from syncline.strategies.gradients import Bucket, Gradients, buckets
from syncline.strategies.layers import Communicate, Compute, Exchange, Join, LayerPasses, LayerSteps, Ring, Step
from syncline.strategies.nodes import FORWARD, INPUT_GRAD, Message, Node, Nodes
from syncline.strategies.schedules import Turn
from syncline.strategies.setting import Role, Setting
from syncline.strategies.weights import Weights

KEYS_AND_VALUES, THEIR_GRADIENTS = 0, 1
"""Tags of what goes around a context-parallel ring."""


class Stage:
    """A stage, as one of its NPUs sees it. Raises [`models.model.DivisionError`] for sizes that cannot be divided."""

    def __init__(self, setting: Setting, role: Role, families: Mapping[str, int]) -> None:
        self.setting = setting
        self.role = role
        parallel = setting.parallel
        self.nodes = Nodes(families, setting.costs, setting.host_kernel_time)
        pieces = weights.placed(setting.model, parallel.pipeline, parallel.virtual)[role.stage]
        passes = LayerPasses(parallel, setting.costs, role.expert)
        self.chunks: list[list[LayerSteps]] = [[passes.steps(layer) for layer in piece] for piece in pieces]
        self.weights = weights.of_stage(setting.model, pieces, parallel, setting.costs)
        self.buckets = self._buckets()
        self.gradients = Gradients(setting, role, self.nodes, self.buckets)
        self.order = schedules.turns(parallel.schedule, role.stage, parallel.pipeline, setting.micros, parallel.virtual)
        self.outstanding: list[int] = []
        """Communication that the next [`Join`] waits for."""
        self.first_uses: dict[tuple[int, int], int] = {}
        """By chunk and layer, the first node that needs the weights."""
        self.visits = [(turn, number) for turn in self.order for number in self._numbers(turn)]
        """Passes through layers, in order."""
        self.visited = 0
        self.gathers: list[list[int]] = []
        """Of each pass that is known, what brings its weights (ZeRO 3)."""

    def _numbers(self, turn: Turn) -> Sequence[int]:
        numbers = range(len(self.chunks[turn.chunk]))
        return numbers if turn.forward else numbers[::-1]

    def _buckets(self) -> list[list[Bucket]]:
        setting, found, number = self.setting, [], 0
        for steps, of_chunk in zip(self.chunks, self.weights, strict=True):
            sizes = [w.total * setting.gradient for w in of_chunk]
            here = []
            for layers in buckets(sizes, setting.bucket, setting.first_bucket):
                together = sum((of_chunk[n] for n in layers), Weights())
                here.append(Bucket(number, layers, together, steps[layers.start].name))
                number += 1
            found.append(here)
        return found

    def program(self) -> list[Node]:
        """The nodes of an iteration."""
        complete = schedules.last_backward(self.order)
        every = self.setting.parallel.zero >= 2 or self.setting.is_pipedream
        has_gradients = False
        for turn in self.order:
            if turn.forward:
                self._forward(turn)
                continue
            if self.setting.is_pipedream and has_gradients:
                self.gradients.update(tied=False)  # copies of shared weights meet at the end only
            self.gradients.is_last = complete[turn.chunk] == turn.micro
            self._backward(turn, exchange=every or self.gradients.is_last)
            has_gradients = True
            if every:
                self.gradients.flush()
        updated = self.gradients.update()
        self._close(updated)
        return self.nodes.nodes

    def _close(self, updated: int | None) -> None:
        """Has the next iteration wait for the weights."""
        if self.setting.parallel.zero == 3 and updated is not None:
            for number in (n for gathered in self.gathers[: self.setting.parallel.prefetch + 1] for n in gathered):
                self.nodes.after_previous(number, [updated])
        for chunk, of_chunk in enumerate(self.buckets):
            for bucket in of_chunk:
                for layer in bucket.layers:
                    first = self.first_uses.get((chunk, layer))
                    if first is not None:
                        self.nodes.after_previous(first, self.gradients.ready.get(bucket.number, ()))

    # Turns

    def _forward(self, turn: Turn) -> None:
        parallel, last = self.setting.parallel, self.setting.parallel.pipeline - 1
        stage, chunk = self.role.stage, turn.chunk
        if stage or chunk:
            self._receive(FORWARD, self.chunks[chunk][0].name, -1, 2 * chunk)
        for layer in self._numbers(turn):
            self._visit(turn, layer, self.chunks[chunk][layer].forward)
        if stage < last or chunk < parallel.virtual - 1:
            self._send(FORWARD, 1, 2 * (chunk if stage < last else chunk + 1))

    def _backward(self, turn: Turn, *, exchange: bool) -> None:
        parallel, last = self.setting.parallel, self.setting.parallel.pipeline - 1
        stage, chunk = self.role.stage, turn.chunk
        if stage < last or chunk < parallel.virtual - 1:
            self._receive(INPUT_GRAD, self.chunks[chunk][-1].name, 1, 2 * chunk + 1)
        for layer in self._numbers(turn):
            self._visit(turn, layer, self.chunks[chunk][layer].backward)
            if exchange:
                self.gradients.complete(chunk, layer)
        if stage or chunk:
            self.nodes.layer = self.chunks[chunk][0].name
            self._send(INPUT_GRAD, -1, 2 * (chunk if stage else chunk - 1) + 1)

    @property
    def _is_sent_in_parts(self) -> bool:
        return self.setting.parallel.sequence or self.setting.parallel.scatter_gather

    def _message(self, peer: int, tag: int) -> Message:
        """An activation or its gradient, from an NPU of one stage to one of another."""
        parts = self.setting.parallel.tensor if self._is_sent_in_parts else 1
        return Message("pipeline", peer, tag, self.setting.activation // parts)

    def _receive(self, pass_: str, layer: str, peer: int, tag: int) -> None:
        nodes, parallel = self.nodes, self.setting.parallel
        nodes.layer = layer
        got = nodes.message(pass_, "recv", self._message(peer, tag))
        nodes.wait(got)
        nodes.host_waits(got)
        if parallel.scatter_gather and not parallel.sequence:
            nodes.wait(nodes.collective(pass_, "tensor", "all-gather", self.setting.activation, nodes.ready()))

    def _send(self, pass_: str, peer: int, tag: int) -> None:
        sent = self.nodes.message(pass_, "send", self._message(peer, tag), self.nodes.ready())
        if not self.setting.parallel.overlap.pipeline:
            self.nodes.wait(sent)

    # Layers

    def _visit(self, turn: Turn, layer: int, steps: Sequence[Step]) -> None:
        nodes = self.nodes
        if self.setting.parallel.zero == 3:
            self._gather_ahead()
        nodes.layer = self.chunks[turn.chunk][layer].name
        begins = len(nodes.nodes)
        for step in steps:
            self._play(step)
        computes = (n for n in range(begins, len(nodes.nodes)) if nodes.is_main(n))
        if turn.forward and (first := next(computes, None)) is not None:
            self.first_uses.setdefault((turn.chunk, layer), first)
        self.visited += 1

    def _gather_ahead(self) -> None:
        """Gathers the weights of the layer to come, and of so many behind it; those of this one are waited for, and
        copied out of their buffer.
        """
        nodes, setting = self.nodes, self.setting
        until = min(len(self.visits), self.visited + setting.parallel.prefetch + 1)
        while len(self.gathers) < until:
            pass_, held = self._visited(len(self.gathers))
            nodes.compute(pass_, copies.before_gather(setting, held))
            after = [] if nodes.last is None else [nodes.last]
            parts = setting.parts(held)
            self.gathers.append([one for f, n in parts for one in nodes.gather(pass_, f, n * setting.element, after)])
        pass_, held = self._visited(self.visited)
        nodes.wait(*self.gathers[self.visited])
        nodes.compute(pass_, copies.behind_gather(setting, held))

    def _visited(self, visit: int) -> tuple[str, Weights]:
        """The pass of a visit to a layer, and the weights of that, to which nodes are accounted from now on."""
        turn, layer = self.visits[visit]
        self.nodes.layer = self.chunks[turn.chunk][layer].name
        return FORWARD if turn.forward else INPUT_GRAD, self.weights[turn.chunk][layer]

    def _play(self, step: Step) -> None:
        nodes = self.nodes
        match step:
            case Compute():
                nodes.compute(step.pass_, step.kernels)
            case Communicate():
                number = nodes.collective(step.pass_, step.family, step.kind, step.size, nodes.ready())
                if step.blocks:
                    nodes.wait(number)
                elif number is not None:
                    self.outstanding.append(number)
            case Join():
                nodes.wait(*self.outstanding)
                self.outstanding = []
            case Exchange():
                sizes = [list(row) for row in step.sizes]
                nodes.wait(nodes.exchange(step.pass_, "expert", sizes, nodes.ready()))
            case Ring():
                self._ring(step)

    def _ring(self, ring: Ring) -> None:
        """Blocks of keys and values on, as soon as they are there; their gradients behind the compute on each."""
        nodes, there = self.nodes, self.nodes.ready()
        on, from_before = (Message("context", peer, KEYS_AND_VALUES, ring.passing) for peer in (1, -1))
        home, from_behind = (replace(m, tag=THEIR_GRADIENTS, size=ring.returning) for m in (on, from_before))
        returned: list[int] = []
        for block in range(ring.blocks):
            next_block: list[int] = []
            if block < ring.blocks - 1:
                nodes.message(ring.pass_, "send", on, there)
                next_block = [nodes.message(ring.pass_, "recv", from_before)]
            nodes.compute(ring.pass_, ring.kernels)
            if ring.returning:
                after = [*nodes.ready(), *returned]
                nodes.message(ring.pass_, "send", home, after)
                returned = [nodes.message(ring.pass_, "recv", from_behind)]
            nodes.wait(*next_block)
            there = next_block
        nodes.wait(*returned)
