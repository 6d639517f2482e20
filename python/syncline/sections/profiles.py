"""Parameters of the ACE paper's endpoints, for commands that name an endpoint and nothing else.

Each endpoint's module names its own.
"""

from __future__ import annotations

from typing import Final

from syncline.base.document import Plain
from syncline.sections import endpoints

SOURCE: Final = "ACE paper"

ENDPOINTS: Final[dict[str, dict[str, Plain]]] = {
    name: {"kind": name, **section.PROFILE} for name, section in endpoints.ENDPOINTS.items()
}
"""What each endpoint is given."""
