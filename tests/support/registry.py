"""Every endpoint and every network backend, for tests of what holds for all of them.

A test that names some by hand says nothing of the next one that is added.
"""

from __future__ import annotations

import json
from typing import Final

from syncline import endpoints, networks, profiles

_PRICED: Final = frozenset(name for name, section in endpoints.ENDPOINTS.items() if section.is_priced)
"""Those whose times are a machine's: they need one by name (tests/software/test_pricing.py)."""
ENDPOINTS: Final = {name: json.dumps(profile) for name, profile in profiles.ENDPOINTS.items() if name not in _PRICED}
"""Every endpoint by name, as an experiment writes it, with the parameters that commands give it."""
ON_ANY_FABRIC: Final = tuple(name for name in ENDPOINTS if not endpoints.ENDPOINTS[name].adds_in_switches)
"""Endpoints that need no switches."""
FORWARDING: Final = tuple(n for n, section in endpoints.ENDPOINTS.items() if "transit" in section.model_fields)
"""Endpoints that may forward what is for distant NPUs."""

BACKENDS: Final = tuple(networks.NETWORKS)
"""Every backend by name."""
_BUILT: Final = {name: section(backend=name) for name, section in networks.NETWORKS.items()}
WITH_CONTENTION: Final = tuple(name for name, backend in _BUILT.items() if backend.has_contention)
"""Backends in which messages that share a link slow each other."""
FOLDING: Final = tuple(name for name, backend in _BUILT.items() if backend.transfer != "frames")
"""Backends in which NPUs that are alike take the same time."""
EXACT: Final = FOLDING
"""Backends that have no transport, so that nothing but links, contention and packets takes time."""
WITHOUT_PACKETS: Final = tuple(name for name, backend in _BUILT.items() if backend.transfer == "messages")
"""Backends in which large messages cost no more than small ones."""
