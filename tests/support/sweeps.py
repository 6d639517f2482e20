"""Rows of sweeps whose numbers are known."""

from __future__ import annotations

from typing import Any

ABOUT = {"name": "space", "version": "0.1.0", "axes": ["endpoint.sram_bytes", "endpoint.fsms", "topology"]}


def row(sram: int, fsms: int, topology: str = "Ring(4)", **more: Any) -> dict[str, Any]:
    return {
        "base": "b.yaml",
        "variant": "ACE",
        "endpoint.sram_bytes": sram * 2**20,
        "endpoint.fsms": fsms,
        "topology": topology,
        "status": "done",
        "error": None,
        "iteration_time_s": 1e-3 / (sram + fsms),
        "area_um2": 1e6 * sram + 1e4 * fsms,
        "power_w": 1.0,
        **more,
    }
