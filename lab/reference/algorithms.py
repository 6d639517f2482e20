"""The page of algorithms, collectives, endpoints and backends, made of what the engine says of itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lab.reference.markdown import GENERATED, code, sentence, table
from syncline.core import facts
from syncline.sections import algorithms
from syncline.sections.endpoints import ENDPOINTS
from syncline.sections.networks import NETWORKS

HEAD: Final = f"""# Algorithms, endpoints and backends

{GENERATED} `syncline list` prints the names. How collectives are simulated is on the page
on [collectives](../collectives.md); endpoints are explained in [ACE](../ace.md), [placement](../placement.md) and
[streams](../streams.md).
"""


def page() -> str:
    """The page."""
    return "\n".join([HEAD, *_sections()])


def _sections() -> Iterator[str]:
    engine = facts.engine()
    yield "## Algorithms\n"
    for line in algorithms.DESCRIPTION.partition(". ")[2].rstrip(".").split("; `"):
        name, _, says = line.removeprefix("`").partition("`: ")
        yield f"* `{name}`: {says}."
    yield "\n## What each implements\n"
    yield from table(
        ("algorithm", "collectives", "composed, along each dimension, of"),
        (
            (code(one.name), ", ".join(map(code, one.implements)), ", ".join(map(code, one.composes)))
            for one in engine.algorithms.values()
        ),
    )
    yield "## Collectives\n"
    yield from table(
        ("collective", "has a root", "adds what ranks have"),
        (
            (code(one.name), "yes" if one.is_rooted else "", "yes" if one.is_summed else "")
            for one in engine.collectives.values()
        ),
    )
    yield "## Endpoints\n"
    yield from table(
        ("endpoint", "what it is", "keys"),
        (
            (code(name), sentence(section.__doc__ or ""), f"[keys](experiment.md#endpoint-{name})")
            for name, section in ENDPOINTS.items()
        ),
    )
    yield "## Backends\n"
    yield from table(
        ("backend", "what it is", "has packets", "has contention", "keys"),
        (
            (
                code(name),
                sentence(section.__doc__ or ""),
                "yes" if engine.networks[name].has_packets else "",
                "yes" if engine.networks[name].has_contention else "",
                f"[keys](experiment.md#network-{name})",
            )
            for name, section in NETWORKS.items()
        ),
    )
