"""What all results of functions have in common, as tests see it."""

from __future__ import annotations

from typing import Any, Final


def apart_from_cost(document: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key != "cost"}


def shows_itself(found: Any) -> None:
    """As a small table, whose texts are escaped whatever they are."""
    assert repr(found).startswith(f"<{type(found).__name__} ")
    assert len(repr(found)) < 200
    html = found._repr_html_()
    assert "<table>" in html or "<figure>" in html
    assert html.count("<table>") == html.count("</table>")
    assert "color" not in html  # colours are those of the page around it, dark or light
    found.document.update(_poisoned(found.document))
    html = found._repr_html_()
    assert "<script" not in html
    assert "&lt;script&gt;" in html


HOSTILE: Final = "<script>alert('&')</script>"


def _poisoned(value: Any) -> Any:
    """A document all of whose texts are hostile."""
    if isinstance(value, dict):
        return {key: _poisoned(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_poisoned(item) for item in value]
    return HOSTILE if isinstance(value, str) else value
