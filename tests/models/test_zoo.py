"""Models of files against those that the engine knows by name, to the last bit of a run's results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from syncline import _core, engine
from syncline.schema import load

EXPERIMENT = """\
name: zoo
topology: "{topology}"
workload: {{model: {model}, batch: {batch}, element: {element}B, kernels: {kernels}}}
endpoint: {{kind: ideal}}
network: analytical
"""


RING = "Ring(4, rate=100GB/s, latency=500ns)"
TORUS = "Ring(8, rate=100GB/s, latency=500ns)_Ring(16, rate=25GB/s, latency=1us)"


def specified(folder: Path, **values: object) -> dict[str, Any]:
    path = folder / "zoo.yaml"
    path.write_text(EXPERIMENT.format(**values))
    (variant,) = load.load_file(path, path.name).variants
    return engine.specification(variant.experiment)


@pytest.mark.parametrize("kernels", ["all", "weighted"])
@pytest.mark.parametrize("model", ["alexnet", "vgg16", "resnet18", "resnet50", "gnmt", "dlrm"])
def test_results_are_equal(model: str, kernels: str, tmp_path: Path) -> None:
    for topology, batch, element in ((RING, 1, 1), (RING, 32, 2), (TORUS, 100, 4), (RING, 7, 8)):
        given = specified(tmp_path, model=model, batch=batch, element=element, kernels=kernels, topology=topology)
        by_name = json.loads(json.dumps(given))
        by_name["job"]["workload"] = {
            "source": "model",
            "name": model,
            "batch": batch,
            "element_bytes": element,
            "kernels": kernels,
            "sequence": None,
        }
        assert _core.run(json.dumps(given)) == _core.run(json.dumps(by_name))
