"""GPT-3 175B on 8,192 NPUs by `syncline run`, on one core: `python -m tests.strategies.bench_scale`.

The time of an iteration is behaviour, and is held against what it was; processor time and memory are those of the
computer.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

EXPERIMENT = """\
name: scale
topology: dgx-a100(nodes=1024)
workload: {model: gpt3-175b, global_batch: 1536}
parallel: {tensor: 8, pipeline: 16, micro_batch: 1}
collective: {chunks: 16}
network: flow
"""
ITERATION_S = 2.860594751938


def main() -> int:
    """Runs it once. Returns 1 if the iteration takes another time."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scale.yaml"
        file.write_text(EXPERIMENT)
        command = [sys.executable, "-m", "syncline", "run", str(file), "--out", f"{folder}/run", "--json", "-q"]
        one_core = {**os.environ, "OMP_NUM_THREADS": "1", "ARROW_NUM_THREADS": "1"}
        ended = subprocess.run(command, check=True, capture_output=True, text=True, env=one_core)
    (run,) = json.loads(ended.stdout)["runs"]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{run['npus']:,} NPUs, {run['fidelity']['simulated_npus']} simulated: an iteration takes "
        f"{run['iteration_time_s']} s; {used.ru_utime + used.ru_stime:.1f} s of a processor, "
        f"{used.ru_maxrss / 2**20:.2f} GiB"
    )
    return int(run["iteration_time_s"] != ITERATION_S)


if __name__ == "__main__":
    sys.exit(main())
