"""The formats of traces, by the suffix of their files."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from typing import Final

from syncline.results import perfetto, trace
from syncline.results.study import Table
from syncline.results.timeline import Timeline, read

CHROME: Final = (".json", ".json.gz")
PERFETTO: Final = (".pftrace", ".perfetto-trace")
SUFFIXES: Final = (*CHROME, *PERFETTO)
DEFAULT: Final = ".json"


def suffix_of(name: str) -> str | None:
    """The suffix of a file's name, if it is one of a trace."""
    return next((suffix for suffix in SUFFIXES if name.lower().endswith(suffix)), None)


def build(
    suffix: str, tables: Mapping[str, Table], name: str, max_bytes: int = trace.MAX_BYTES, limit: int | None = None
) -> bytes:
    """The trace of the variant `name`, before compression of at most `max_bytes`. `limit` is the run's
    `output.trace_limit`.
    """
    return encode(suffix, read(tables, most(suffix, max_bytes), limit), name, max_bytes)


def most(suffix: str, max_bytes: int = trace.MAX_BYTES) -> int:
    """Slices of which no more could fit."""
    return max_bytes // (perfetto.MIN_EVENT_BYTES if suffix in PERFETTO else trace.MIN_EVENT_BYTES)


def encode(suffix: str, timeline: Timeline, name: str, max_bytes: int = trace.MAX_BYTES) -> bytes:
    """A timeline as the file with this suffix. Raises [`ValueError`] if `max_bytes` are too few for anything."""
    if suffix in PERFETTO:
        return perfetto.encode(timeline, name, max_bytes)
    content = trace.encode(timeline, name, max_bytes)
    return gzip.compress(content, mtime=0) if suffix.endswith(".gz") else content
