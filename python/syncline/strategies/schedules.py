"""In which order the stages of a pipeline compute forward and backward passes of micro-batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from syncline.sections.parallel import Schedule


@dataclass(frozen=True, slots=True)
class Turn:
    """A pass of a micro-batch through a chunk of a stage's layers."""

    forward: bool
    micro: int
    chunk: int = 0


def turns(schedule: Schedule, stage: int, stages: int, micros: int, chunks: int = 1) -> list[Turn]:
    """The passes of a stage, in order.

    `gpipe`: all forward, then all backward, the last micro-batch first (Huang et al., "GPipe", NeurIPS 2019, Fig. 2c).
    `1f1b` and `pipedream`: one forward, one backward, in turn. With `interleaved`, `micros` is a multiple of `stages`
    (Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", SC 2021,
    section 2.2.2).
    """
    match schedule:
        case "gpipe":
            return [*_passes(True, range(micros)), *_passes(False, reversed(range(micros)))]
        case "1f1b" | "pipedream":
            # As many forward passes ahead as there are stages behind (PipeDream, SOSP 2019, section 3.2).
            return _interlocked(_passes(True, range(micros)), _passes(False, range(micros)), stages - 1 - stage)
        case "interleaved":
            ahead = 2 * (stages - 1 - stage) + (chunks - 1) * stages
            forward, backward = _in_rounds(True, stages, micros, chunks), _in_rounds(False, stages, micros, chunks)
            return _interlocked(forward, backward, ahead if micros > stages else len(forward))


def _passes(forward: bool, micros: Iterable[int]) -> list[Turn]:
    return [Turn(forward, micro) for micro in micros]


def _in_rounds(forward: bool, stages: int, micros: int, chunks: int) -> list[Turn]:
    """As many micro-batches as there are stages go through a chunk before the next chunk begins."""
    order = range(chunks) if forward else range(chunks)[::-1]
    rounds = range(0, micros, stages)
    return [Turn(forward, first + k, chunk) for first in rounds for chunk in order for k in range(stages)]


def _interlocked(forward: Sequence[Turn], backward: Sequence[Turn], ahead: int) -> list[Turn]:
    ahead = min(ahead, len(forward))
    found = list(forward[:ahead])
    for turn, back in zip(forward[ahead:], backward, strict=False):
        found += [turn, back]
    return found + list(backward[len(forward) - ahead :])


def most_kept(order: Sequence[Turn], kept: Sequence[int]) -> int:
    """The most bytes of activations at a time, where a pass through a chunk keeps so many until its backward pass."""
    most = now = 0
    for turn in order:
        now += kept[turn.chunk] if turn.forward else -kept[turn.chunk]
        most = max(most, now)
    return most


def last_backward(order: Sequence[Turn]) -> dict[int, int]:
    """Of each chunk, the micro-batch whose backward pass is the last one: its gradients are then complete."""
    return {turn.chunk: turn.micro for turn in order if not turn.forward}
