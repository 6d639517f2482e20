"""A hook of MkDocs: notebooks in docs/ are pages, with the outputs that are stored in them.

`NAME.ipynb` becomes the page `NAME.md` of the navigation, and stays beside it as a file to download. Nothing is
executed, and a page loads nothing from elsewhere: of the forms of an output, the first one is taken that needs nothing.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

_OUTSIDE: Final = re.compile(
    r"""(?:src|href)\s*=\s*["']?(?:https?:)?//|url\(\s*["']?(?:https?:)?//|@import|require\("""
)
_LINKS: Final = re.compile(r"<a\s[^>]*>")
_ANSI: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_PLOTLY: Final = "application/vnd.plotly.v1+json"
_PLOTLY_FILE: Final = "assets/plotly.min.js"

_outputs: dict[str, list[str]] = {}
"""HTML of the outputs of each page, by its file. Markdown has a place for each, which is filled at last."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds a page for every notebook."""
    _outputs.clear()
    has_plotly = False
    for file in list(files):
        if file.src_uri.endswith(".ipynb") and file.abs_src_path is not None:
            page = file.src_uri.removesuffix(".ipynb") + ".md"
            text, outputs = page_of(Path(file.abs_src_path))
            _outputs[page] = outputs
            has_plotly |= any(_PLOTLY_FILE in output for output in outputs)
            files.append(File.generated(config, page, content=text))
    if has_plotly:
        from plotly import offline

        files.append(File.generated(config, _PLOTLY_FILE, content=offline.get_plotlyjs()))
    return files


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Puts outputs where the page has places for them."""
    to_root = "../" * page.file.dest_uri.count("/")
    for number, output in enumerate(_outputs.get(page.file.src_uri, [])):
        html = html.replace(_place(number), output.replace(_PLOTLY_FILE, f"{to_root}{_PLOTLY_FILE}"))
    return html


def page_of(path: Path) -> tuple[str, list[str]]:
    """A notebook as Markdown, and the HTML of its outputs.

    Raises:
        PluginError: The file is no notebook, or an output can be shown only with what would have to be fetched.
    """
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    except (ValueError, KeyError, TypeError) as error:
        raise PluginError(f"{path}: this is not a notebook: {error}") from error
    parts: list[str] = []
    outputs: list[str] = []
    for number, cell in enumerate(cells, start=1):
        source = "".join(cell["source"]).rstrip()
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif cell["cell_type"] == "code" and source:
            fence = "`" * max(3, *(len(ticks) + 1 for ticks in re.findall("`{3,}", source)), 3)
            parts.append(f"{fence}python\n{source}\n{fence}")
            for shown in _shown(cell.get("outputs", []), f"{path}, cell {number}"):
                parts.append(_place(len(outputs)))
                outputs.append(shown)
    download = f'[Download this notebook]({path.name}){{ download="{path.name}" }}'
    return "\n\n".join([*parts, download, ""]), outputs


def _place(number: int) -> str:
    return f'<div class="output" data-output="{number}"></div>'


def _shown(outputs: list[dict[str, Any]], where: str) -> Iterator[str]:
    for output in outputs:
        kind = output["output_type"]
        if kind == "stream":
            yield _boxed(_text("".join(output["text"])))
        elif kind == "error":
            raise PluginError(f"{where}: this cell ended with an error: {output.get('ename')}: {output.get('evalue')}")
        else:
            form = next(_forms(output["data"]), None)
            if form is None:
                raise PluginError(f"{where}: this output can be shown only with what would have to be fetched")
            yield _boxed(form)


def _forms(data: dict[str, Any]) -> Iterator[str]:
    """What an output can be shown as, the best first."""
    if _PLOTLY in data:
        yield _plotly(data[_PLOTLY])
    markup = "".join(data.get("text/html", ""))
    # A link may lead anywhere: it is followed only by a reader who wants to.
    if markup and not _OUTSIDE.search(_LINKS.sub("", markup)):
        yield markup
    if "image/svg+xml" in data:
        drawing = "".join(data["image/svg+xml"]).encode()
        yield _image("svg+xml", base64.b64encode(drawing).decode())
    for kind in ("png", "jpeg"):
        if f"image/{kind}" in data:
            yield _image(kind, "".join(data[f"image/{kind}"]).replace("\n", ""))
    if "text/plain" in data and not markup:
        yield _text("".join(data["text/plain"]))


def _image(kind: str, encoded: str) -> str:
    return f'<img alt="Output of the cell above" src="data:image/{kind};base64,{encoded}">'


def _text(text: str) -> str:
    return f"<pre>{html.escape(_ANSI.sub('', text).rstrip())}</pre>"


def _plotly(figure: dict[str, Any]) -> str:
    from plotly import io

    drawn = io.to_html(
        {"data": figure["data"], "layout": figure.get("layout", {})},
        include_plotlyjs=False,
        full_html=False,
        validate=False,
    )
    return f'<script src="{_PLOTLY_FILE}"></script>{drawn}'


def _boxed(markup: str) -> str:
    return f'<div class="output">{markup}</div>'
