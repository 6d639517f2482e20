"""What makes pages small: plotly's script without the parts that pages do not use, compressed, as text.

Plotly's script is nine tenths of a page. Two parts of it, which draw maps and surfaces in three dimensions, are left
out where they are found as they are in the version that this was written for (plotly.js 4); what is not found stays.
A page unpacks the rest with `DecompressionStream`, which browsers have had since 2023.
"""

from __future__ import annotations

import base64
import importlib
import re
import zlib
from functools import cache
from typing import Final

_WORKER: Final = re.compile(r"exports='(?:[^'\\]|\\.){100000,}'")
"""The program of maps, as a text that is run apart."""
_SOLIDS: Final = re.compile(
    r'W\(\([\w$]+,[\w$]+\)=>\{"use strict";\(\(\)=>\{'
    r"var \w+=\{\d+\(\w+,\w+,\w+\)\{\w+\.exports=\{alpha_shape:"
)
"""Where the module begins that draws in three dimensions."""
_NEXT_MODULE: Final = re.compile(r"\}\);(?=var [\w$]+=W\()")
_NOTHING: Final = "W((a,b)=>{b.exports=new Proxy(function(){},{get:(t,k,r)=>r})"
"""A module of which every part is nothing, for what asks for its parts and never uses them."""


def slim(script: str) -> str:
    """Plotly's script without what draws maps and three dimensions."""
    script = _WORKER.sub("exports=''", script)
    begin = _SOLIDS.search(script)
    end = _NEXT_MODULE.search(script, begin.end()) if begin else None
    if begin is None or end is None:
        return script
    return script[: begin.start()] + _NOTHING + script[end.start() :]


def packed(text: str) -> str:
    """A text, compressed (zlib), in base 64."""
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode("ascii")


@cache
def plotly() -> str:
    """Plotly's script, packed; imported here, because the import is slow and most commands need none."""
    return packed(slim(str(importlib.import_module("plotly.offline").get_plotlyjs())))
