"""Parameters of the ACE paper's endpoints, for commands that name an endpoint and nothing else.

Each endpoint's module names its own.
"""

from __future__ import annotations

from typing import Final

from syncline import endpoints
from syncline.document import Plain

SOURCE: Final = "ACE paper"

ENDPOINTS: Final[dict[str, dict[str, Plain]]] = {
    name: {"kind": name, **section.PROFILE} for name, section in endpoints.ENDPOINTS.items()
}
"""What each endpoint is given."""

COLLECTIVES: Final[dict[str, dict[str, Plain]]] = {
    name: dict(section.COLLECTIVE) for name, section in endpoints.ENDPOINTS.items()
}
"""How a single collective is composed and cut with each endpoint."""


def collective(endpoint: str, kind: str) -> dict[str, Plain]:
    """How a single collective of a kind is composed and cut with an endpoint. An all-to-all is direct in the paper
    (section V)."""
    found = dict(COLLECTIVES.get(endpoint, {}))
    if kind == "all-to-all" and found.get("algorithm") != "auto":
        found["algorithm"] = "direct"
    return found
