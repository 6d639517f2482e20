"""Tables in files: whose memory they are read from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from syncline.base import inputs
from syncline.results import parquet


@pytest.mark.parametrize("reader", ["ParquetFile", "read_schema"])
def test_arrow_reads_no_memory_of_python(reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a thread of Arrow's that lets go of it last ends a process that is just about to end."""
    pq.write_table(pa.table({"time_s": [0.5, 1.0]}), tmp_path / "t.parquet")
    content = bytearray((tmp_path / "t.parquet").read_bytes())
    original, opened = getattr(pq, reader), []

    def read(source: pa.NativeFile) -> Any:
        opened.append(source)
        content.append(0)  # a `BufferError` where somebody looks at this memory
        del content[-1]
        return original(source)

    monkeypatch.setattr(pq, reader, read)
    monkeypatch.setattr(inputs, "read_bytes", lambda *_: content)
    parquet.read(tmp_path / "t.parquet", "t")
    parquet.metadata(tmp_path / "t.parquet")
    assert len(opened) == 1
