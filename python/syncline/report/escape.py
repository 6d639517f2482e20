"""Text of users (names of layers, variants, ports) on its way into a page."""

from __future__ import annotations

import html
import json
from typing import Any


def html_text(value: Any) -> str:
    """Text for HTML, inside and outside of attributes."""
    return html.escape(str(value), quote=True)


def chart_text(value: Any) -> str:
    """Text for a chart, where plotly reads a little HTML of its own."""
    text = " ".join(str(value).split())
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def short(value: Any, limit: int = 30) -> str:
    """Text cut in its middle, where an axis has no room for more."""
    text = " ".join(str(value).split())
    if len(text) <= limit:
        return text
    head = (limit - 1) * 2 // 3
    return f"{text[:head]}\N{HORIZONTAL ELLIPSIS}{text[head + 1 - limit :]}"


def script_json(value: Any) -> str:
    """JSON that cannot end the script element that holds it."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text
