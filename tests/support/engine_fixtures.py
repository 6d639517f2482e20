"""Models of the package as the engine gets them, in files that its own tests read.

`python -m tests.support.engine_fixtures` writes them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

from syncline.models import described, file
from syncline.models.evaluate import evaluate

FOLDER: Final = Path(__file__).parents[2] / "crates" / "system" / "tests" / "fixtures"


def fixtures() -> dict[str, dict[str, Any]]:
    """Workloads of the engine's description, by the name of their file."""
    return {
        "resnet50.json": described.chain(evaluate(file.load("resnet50"), 32), 2, "all"),
        "dlrm.json": described.recommender(evaluate(file.load("dlrm"), 64), 16, 2, "all"),
    }


def written(workload: dict[str, Any]) -> str:
    """A workload as JSON with a line for each layer."""
    return re.sub(r' ?\{"name": ', '\n{"name": ', json.dumps(workload)) + "\n"


if __name__ == "__main__":
    for name, workload in fixtures().items():
        (FOLDER / name).write_text(written(workload))
