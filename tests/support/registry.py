"""Every endpoint and every network backend, for tests of what holds for all of them.

A test that names some by hand says nothing of the next one that is added.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, Literal, get_args, get_origin

from syncline.sections import endpoints, networks, profiles

_PRICED: Final = frozenset(name for name, section in endpoints.ENDPOINTS.items() if section.is_priced)
"""Those whose times are a machine's: they need one by name (tests/software/test_pricing.py)."""
ENDPOINTS: Final = {name: json.dumps(profile) for name, profile in profiles.ENDPOINTS.items() if name not in _PRICED}
"""Every endpoint by name, as an experiment writes it, with the parameters that commands give it."""
ON_ANY_FABRIC: Final = tuple(name for name in ENDPOINTS if not endpoints.ENDPOINTS[name].adds_in_switches)
"""Endpoints that need no switches."""
FORWARDING: Final = tuple(n for n, section in endpoints.ENDPOINTS.items() if "transit" in section.model_fields)
"""Endpoints that may forward what is for distant NPUs."""

_EXAMPLES: Final = {"buses": {"kind": "loggp", "latency": "71ns", "overhead": "29ns", "gap": "29ns"}}
"""Sections of endpoints that are models of their own."""
_EXCLUDED_BY: Final = {("contention", "dynamic"): "comm_memory_bandwidth"}
"""Fields that a word of another field leaves no meaning."""


def _words(annotation: Any, default: Any) -> Iterator[Any]:
    """The other words of a field whose type lists them."""
    if annotation is bool:
        yield not default
    elif get_origin(annotation) is Literal:
        yield from (word for word in get_args(annotation) if word != default)
    else:
        yield from (word for part in get_args(annotation) for word in _words(part, default))


def _variants() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, section in endpoints.ENDPOINTS.items():
        profile = profiles.ENDPOINTS[name]
        yield name, profile
        for field, info in section.model_fields.items():
            if field == "kind":
                continue
            words = [_EXAMPLES[field]] if field in _EXAMPLES else _words(info.annotation, info.default)
            for word in words:
                excluded = _EXCLUDED_BY.get((field, word)) if isinstance(word, str) else None
                kept = {key: value for key, value in profile.items() if key != excluded}
                shown = word["kind"] if isinstance(word, dict) else word
                yield f"{name} {field} {shown}", {**kept, field: word}


VARIANTS: Final = dict(_variants())
"""Every endpoint with the parameters that commands give it, and once more with each other word of its fields."""

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
