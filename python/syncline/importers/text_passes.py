"""Collectives of a text workload that ASTRA-sim 1.0 leaves out.

A parallelism says for each pass along which dimensions ASTRA-sim 1.0 communicates (`decode_involved_dimensions` of its
`Workload.cc`). Where there is none, a collective of the file takes no time there. Here, and where Chakra converts the
file for ASTRA-sim 2, it is carried out.
"""

from __future__ import annotations

from typing import Final

COLUMNS: Final = {"forward": 3, "input-gradient": 6, "weight-gradient": 9}
"""Where the collective of a pass stands in the line of a layer; its bytes follow."""
OWN: Final = 12
"""Where a layer of `HYBRID_CUSTOMIZED` has its own parallelism."""
ACTIVATIONS: Final = ("forward", "input-gradient")
WITHOUT: Final = {"DATA": ACTIVATIONS, "MODEL": ("weight-gradient",)}
"""Passes without communication."""
OF_TABLES: Final = ("HYBRID_DLRM", "HYBRID_DLRM_ENHANCED")
"""Where all layers but the first are as under `DATA`."""


def left_out(text: str) -> str | None:
    """Says what ASTRA-sim 1.0 leaves out of a file with this content, which the engine has read."""
    first, _, *layers = (line.split() for line in text.splitlines() if line.strip())
    found = []
    for number, fields in enumerate(layers):
        parallelism = fields[OWN] if len(fields) > OWN else first[0]
        if parallelism in OF_TABLES and number > 0:
            parallelism = "DATA"
        for pass_ in WITHOUT.get(parallelism, ()):
            collective, size = fields[COLUMNS[pass_] : COLUMNS[pass_] + 2]
            if collective != "NONE" and size.strip("0"):
                found.append(f"the {pass_} {collective} of layer {fields[0]}")
    if not found:
        return None
    others = f" and {len(found) - 1} more" if len(found) > 1 else ""
    under = " or ".join(WITHOUT)
    return (
        f"ASTRA-sim 1.0 leaves out {found[0]}{others}: layers under {under} do not communicate in such a pass; here "
        "all NPUs carry it out"
    )
