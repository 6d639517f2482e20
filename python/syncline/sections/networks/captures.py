"""Ports of which what leaves is recorded, and the files that come of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import AfterValidator

from syncline.fabric.fields import Accepted, refused

if TYPE_CHECKING:
    import pyarrow as pa

PORT_ACCEPTED: Final = (
    "npu N or switch N for all of its ports, or npu N: PORT for one, PORT as in the table `links`, "
    'such as "npu 0: dim 0 to its switch"'
)
TABLE: Final = "captures"
"""The table of a run that has the files, and what is in them."""
_PORT: Final = re.compile(r"(npu|switch) (0|[1-9][0-9]{0,8})(?: ?: ?(\S(?:.{0,198}\S)?))?")


def _port(value: str) -> str:
    if not _PORT.fullmatch(value):
        raise refused("this names no port", PORT_ACCEPTED)
    return value


NamedPort = Annotated[str, AfterValidator(_port), Accepted(PORT_ACCEPTED)]


def specification(ports: Sequence[str]) -> list[dict[str, Any]]:
    """The ports in the engine's description."""
    matches = [match for port in ports if (match := _PORT.fullmatch(port)) is not None]
    return [{"of": match[1], "number": int(match[2]), "port": match[3]} for match in matches]


def files(table: pa.Table) -> Iterator[tuple[str, bytes]]:
    """The files of the table, each with a name that says which port it is of."""
    taken: set[str] = set()
    for node, port, file in zip(*(table.column(name).to_pylist() for name in ("node", "port", "file")), strict=True):
        stem = re.sub(r"[^A-Za-z0-9+]+", "-", f"{node} {port}").strip("-").lower() or "port"
        # Names that differ in other signs only.
        name = next(name for n in range(len(taken) + 1) if (name := f"{stem}-{n}" if n else stem) not in taken)
        taken.add(name)
        yield f"{name}.pcap", file


def notes_of(tables: Mapping[str, pa.Table]) -> list[str]:
    """Which files of a run were full before its end."""
    if TABLE not in tables:
        return []
    rows = tables[TABLE].select(["node", "port", "frames", "left_out"]).to_pylist()
    return [
        f"the capture of {row['node']}, {row['port']}, was full after {row['frames']:,} frames; "
        f"{row['left_out']:,} more left by this port"
        for row in rows
        if row["left_out"]
    ]
