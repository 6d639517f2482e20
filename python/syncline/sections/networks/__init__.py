"""Network backends, a module each: their settings, and everything that the rest of the program asks of them.

A backend is named once, in `NETWORKS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from syncline.base.section import one_of_sections
from syncline.sections.networks.analytical import AnalyticalNetwork
from syncline.sections.networks.base import NetworkSection
from syncline.sections.networks.ethernet import EthernetNetwork
from syncline.sections.networks.flow import FlowNetwork
from syncline.sections.networks.packet import PacketNetwork

NETWORKS: Final[dict[str, type[NetworkSection]]] = {
    section.model_fields["backend"].default: section
    for section in (PacketNetwork, FlowNetwork, AnalyticalNetwork, EthernetNetwork)
}
"""The backends by name, the usual one first."""
USUAL: Final = PacketNetwork()
"""The backend of an experiment that names none."""


if TYPE_CHECKING:
    Network: TypeAlias = NetworkSection
else:
    Network: Any = one_of_sections(NETWORKS, "backend", USUAL.backend)

__all__ = [
    "NETWORKS",
    "USUAL",
    "AnalyticalNetwork",
    "EthernetNetwork",
    "FlowNetwork",
    "Network",
    "NetworkSection",
    "PacketNetwork",
]
