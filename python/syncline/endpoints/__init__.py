"""Endpoints, a module each: their settings, and everything that the rest of the program asks of them.

An endpoint is named once, in `ENDPOINTS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias, get_args

from syncline.endpoints.ace import AceEndpoint
from syncline.endpoints.base import EndpointSection, Surroundings, Transit, cycle_ps
from syncline.endpoints.baseline import BaselineEndpoint
from syncline.endpoints.buses import Buses
from syncline.endpoints.ideal import IdealEndpoint
from syncline.endpoints.nccl import NcclEndpoint
from syncline.endpoints.streams import StreamsEndpoint
from syncline.endpoints.switch_offload import SwitchOffloadEndpoint
from syncline.schema.section import one_of_sections

ENDPOINTS: Final[dict[str, type[EndpointSection]]] = {
    get_args(section.model_fields["kind"].annotation)[0]: section
    for section in (IdealEndpoint, BaselineEndpoint, AceEndpoint, SwitchOffloadEndpoint, StreamsEndpoint, NcclEndpoint)
}
"""The endpoints by name, the usual one first."""
USUAL: Final = IdealEndpoint()
"""The endpoint of an experiment that names none."""

if TYPE_CHECKING:
    Endpoint: TypeAlias = EndpointSection
else:
    Endpoint: Any = one_of_sections(ENDPOINTS, "kind")

__all__ = [
    "ENDPOINTS",
    "USUAL",
    "AceEndpoint",
    "BaselineEndpoint",
    "Buses",
    "Endpoint",
    "EndpointSection",
    "IdealEndpoint",
    "NcclEndpoint",
    "StreamsEndpoint",
    "Surroundings",
    "SwitchOffloadEndpoint",
    "Transit",
    "cycle_ps",
]
