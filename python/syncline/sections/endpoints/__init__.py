"""Endpoints, a module each: their settings, and everything that the rest of the program asks of them.

An endpoint is named once, in `ENDPOINTS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias, get_args

from syncline.base.section import one_of_sections
from syncline.sections.endpoints.ace import AceEndpoint
from syncline.sections.endpoints.base import EndpointSection, Surroundings, Transit, cycle_ps
from syncline.sections.endpoints.baseline import BaselineEndpoint
from syncline.sections.endpoints.buses import Buses
from syncline.sections.endpoints.ideal import IdealEndpoint
from syncline.sections.endpoints.nccl import NcclEndpoint
from syncline.sections.endpoints.streams import StreamsEndpoint
from syncline.sections.endpoints.switch_offload import SwitchOffloadEndpoint

ENDPOINTS: Final[dict[str, type[EndpointSection]]] = {
    get_args(section.model_fields["kind"].annotation)[0]: section
    for section in (IdealEndpoint, BaselineEndpoint, AceEndpoint, SwitchOffloadEndpoint, StreamsEndpoint, NcclEndpoint)
}
"""The endpoints by name, the usual one first."""
USUAL: Final = IdealEndpoint()
"""The endpoint of an experiment that names none."""
OF_GPUS: Final = NcclEndpoint(kind="nccl")
"""The endpoint of a training on GPUs that are known, where none is named."""

if TYPE_CHECKING:
    Endpoint: TypeAlias = EndpointSection
else:
    Endpoint: Any = one_of_sections(ENDPOINTS, "kind")

__all__ = [
    "ENDPOINTS",
    "OF_GPUS",
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
