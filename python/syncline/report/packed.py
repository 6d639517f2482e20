"""What makes pages small: plotly's script without the parts that pages do not use, compressed, as text.

Plotly's script is most of a page. Three parts of it, which draw maps (two) and surfaces in three dimensions, are left
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
_MAPS: Final = re.compile(r"function [\w$]+\(e,t\)\{this\.x=e,this\.y=t\}(?=function )")
"""Where the library of maps begins: with its points."""
_PARTS: Final = re.compile(r"var ([\w$]+)=\{\};[\w$]+\(\1,\{AJAXError:")
"""The name of what holds the parts of the library, which a function makes when a map is drawn."""
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
    script = _without_maps(_WORKER.sub("exports=''", script))
    begin = _SOLIDS.search(script)
    end = _NEXT_MODULE.search(script, begin.end()) if begin else None
    if begin is None or end is None:
        return script
    return script[: begin.start()] + _NOTHING + script[end.start() :]


def _without_maps(script: str) -> str:
    """The script with a library of maps that has no parts."""
    begin = _MAPS.search(script)
    parts = _PARTS.search(script, begin.end()) if begin else None
    end = _NEXT_MODULE.search(script, parts.end()) if parts else None
    if begin is None or parts is None or end is None:
        return script
    make = re.search(rf"([\w$]+)\(\),[\w$]+\({re.escape(parts[1])}\)", script[end.end() :])
    if make is None:
        return script
    return f"{script[: begin.start()]}var {parts[1]}={{}},{make[1]}=()=>{{}};{script[end.end() :]}"


def packed(text: str) -> str:
    """A text, compressed (zlib), in base 64."""
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode("ascii")


@cache
def plotly() -> str:
    """Plotly's script, packed; imported here, because the import is slow and most commands need none."""
    return packed(slim(str(importlib.import_module("plotly.offline").get_plotlyjs())))
