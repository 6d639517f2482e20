"""The flow backend."""

from __future__ import annotations

from typing import ClassVar, Literal

from syncline.sections.networks.base import NetworkSection


class FlowNetwork(NetworkSection):
    """Concurrent messages share links max-min fairly; rates change as flows come and go."""

    backend: Literal["flow"] = "flow"
    """Which network model."""

    PER_MESSAGE: ClassVar = 3.5
    EVENTS_PER_S: ClassVar = 2_500_000

    @property
    def has_dear_shares(self) -> bool:
        """Many flows that cross each other's links change each other's rates."""
        return True
