"""When a computation began."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Clock:
    """When a computation began, by the clock on the wall and by the time of processors that this process had."""

    wall_s: float = field(default_factory=time.monotonic)
    cpu_s: float = field(default_factory=time.process_time)
