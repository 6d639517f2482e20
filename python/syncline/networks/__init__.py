"""Network backends, a module each: their settings, and everything that the rest of the program asks of them.

A backend is named once, in `NETWORKS`.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

from pydantic import Discriminator, Tag

from syncline.networks.analytical import AnalyticalNetwork
from syncline.networks.base import NetworkSection
from syncline.networks.flow import FlowNetwork
from syncline.networks.packet import PacketNetwork

NETWORKS: Final[dict[str, type[NetworkSection]]] = {
    section.model_fields["backend"].default: section for section in (PacketNetwork, FlowNetwork, AnalyticalNetwork)
}
"""The backends by name, the usual one first."""
USUAL: Final = PacketNetwork()
"""The backend of an experiment that names none."""


def _tag(value: Any) -> str:
    given = value.get("backend", USUAL.backend) if isinstance(value, dict) else getattr(value, "backend", USUAL.backend)
    return str(given)


if TYPE_CHECKING:
    Network: TypeAlias = NetworkSection
else:
    _tagged = [Annotated[section, Tag(name)] for name, section in NETWORKS.items()]
    Network = Annotated[reduce(or_, _tagged), Discriminator(_tag)]

__all__ = ["NETWORKS", "USUAL", "AnalyticalNetwork", "FlowNetwork", "Network", "NetworkSection", "PacketNetwork"]
