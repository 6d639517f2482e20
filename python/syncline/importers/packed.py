"""Files that may be compressed with gzip, unpacked within a limit."""

from __future__ import annotations

import zlib

from syncline.base.errors import InputError, Problem

_MAGIC = b"\x1f\x8b"
_GZIP = 31
"""What zlib calls gzip."""


def inflated(content: bytes, file: str, max_bytes: int) -> bytes:
    """The content as it is, or unpacked if it is compressed. Raises [`InputError`] if it is damaged or unpacks to more
    than `max_bytes`.
    """
    if content[:2] != _MAGIC:
        return content
    pieces: list[bytes] = []
    left, rest = max_bytes, content
    while rest:
        stream = zlib.decompressobj(_GZIP)
        try:
            piece = stream.decompress(rest, left + 1)
        except zlib.error:
            at = len(content) - len(rest)
            message = "the compressed data that begins here is damaged"
            raise InputError([Problem(file, None, f"byte {at}", None, message, "gzip, or no compression")]) from None
        left -= len(piece)
        if left < 0:
            message = f"the file unpacks to more than {max_bytes} bytes"
            raise InputError([Problem(file, None, "", None, message)])
        pieces.append(piece)
        if not stream.eof:
            raise InputError([Problem(file, None, f"byte {len(content)}", None, "the compressed data is cut off")])
        rest = stream.unused_data
    return b"".join(pieces)
