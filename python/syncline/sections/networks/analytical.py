"""The analytical backend."""

from __future__ import annotations

from typing import ClassVar, Literal

from syncline.sections.networks.base import NetworkSection
from syncline.sections.networks.flow import FlowNetwork


class AnalyticalNetwork(NetworkSection):
    """Hop latency and serialisation at the sender's port; no contention inside the network."""

    backend: Literal["analytical"] = "analytical"
    """Which network model."""

    PER_MESSAGE: ClassVar = 2.6
    EVENTS_PER_S: ClassVar = 6_000_000

    @property
    def has_contention(self) -> bool:
        """Links carry whatever they are asked to."""
        return False

    def comparable(self) -> tuple[NetworkSection, ...]:
        """Flows in its place."""
        return (self.on(FlowNetwork()),)

    def recommendation(self, time_s: float) -> str:
        """How long it takes does not matter: nothing is cheaper."""
        return "analytical: fast, and blind to contention inside the network; packet shows it"
