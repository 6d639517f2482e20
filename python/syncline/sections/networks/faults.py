"""What happens to links and nodes at stated times."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer

from syncline.base import quantities
from syncline.base.section import Section
from syncline.fabric.fields import Accepted, Share, Time, TimeOrZero, refused

NODE_ACCEPTED: Final = "npu N or switch N, such as npu 3; switches are all nodes that are no NPUs, by number"
PERCENT: Final = 100
MILLION: Final = 1_000_000
_NODE: Final = re.compile(r"(npu|switch) (0|[1-9][0-9]{0,8})")


def _node(value: str) -> str:
    if not _NODE.fullmatch(value):
        raise refused("this names no node", NODE_ACCEPTED)
    return value


LEFT_ACCEPTED: Final = "0% to 100%, without a fraction"


def _left(value: object) -> Fraction:
    if isinstance(value, Fraction):
        return value
    try:
        share = Fraction(0) if isinstance(value, str) and value.strip() == "0%" else quantities.share(value)
    except quantities.QuantityError as error:
        raise refused(error.message, LEFT_ACCEPTED) from None
    if (share * PERCENT).denominator != 1:
        raise refused("this is no whole per cent", LEFT_ACCEPTED)
    return share


Left = Annotated[
    Fraction,
    BeforeValidator(_left),
    PlainSerializer(quantities.format_share, return_type=str),
    Accepted(LEFT_ACCEPTED),
]
Node = Annotated[str, AfterValidator(_node), Accepted(NODE_ACCEPTED)]


def _npu(value: str) -> str:
    if not value.startswith("npu "):
        raise refused("this names no NPU", NPU_ACCEPTED)
    return value


NPU_ACCEPTED: Final = "npu N, such as npu 3"
NamedNpu = Annotated[str, AfterValidator(_node), AfterValidator(_npu), Accepted(NPU_ACCEPTED)]


def number(node: str, npus: int) -> int:
    """The number of a node in the engine's description: NPUs first, then everything else."""
    match = _NODE.fullmatch(node)
    assert match is not None
    return int(match[2]) + (npus if match[1] == "switch" else 0)


class Fault(Section):
    """A link, or all links of a node, that become slower, lose frames, or go down."""

    link: Annotated[list[Node], Field(min_length=2, max_length=2)] | None = None
    """The two ends of the link; it is affected in both directions."""
    node: Node | None = None
    """Or a node, such as an NPU whose NIC is slow: all its links, in both directions."""
    at: TimeOrZero = 0
    """When it begins."""
    until: Time | None = None
    """When all is as before; by default it stays."""
    rate: Left | None = None
    """What is left of the rate, in whole per cent; with `0%` the link is down."""
    loss: Share | None = None
    """How many of the frames get lost on the wire, of a link."""

    def wrong(self) -> Iterator[tuple[str, str, str]]:
        """What is wrong with its fields taken together: a field, why, and what is accepted."""
        if (self.link is None) == (self.node is None):
            yield "link", "a fault is that of a link or of a node", "link or node, and not both"
        if self.rate is None and self.loss is None:
            yield "rate", "nothing changes", "rate, loss, or both"
        if self.node is not None and self.loss is not None:
            yield "loss", "a node loses no frames", "the loss of a link"
        if self.until is not None and self.until <= self.at:
            yield "until", "this is no later than the beginning", "a time after at"

    def changes(self, npus: int) -> Iterator[dict[str, Any]]:
        """The changes of the engine's description (`ChangeSpec` of `crates/system`)."""
        rate = PERCENT if self.rate is None else int(self.rate * PERCENT)
        loss = 0 if self.loss is None else int(self.loss * MILLION)
        steps = [(self.at, rate, loss)] + ([] if self.until is None else [(self.until, PERCENT, 0)])
        for at, left, lost in steps:
            if self.node is not None:
                yield {"of": "node", "at_ps": at, "node": number(self.node, npus), "rate_percent": left}
            elif self.link is not None:
                one, other = (number(end, npus) for end in self.link)
                for src, dst in ((one, other), (other, one)):
                    between = {"of": "between", "at_ps": at, "from": src, "to": dst}
                    yield between | {"rate_percent": left, "loss_millionths": lost}


def changes(faults: Iterable[Fault], npus: int) -> list[dict[str, Any]]:
    """The changes of the engine's description, in the order of time."""
    return sorted((change for fault in faults for change in fault.changes(npus)), key=lambda change: change["at_ps"])
