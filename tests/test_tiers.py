"""The list of slow tests: each is there, and something like it stays in the first tier."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support import tiers

ROOT = Path(__file__).parents[1]


def test_every_slow_test_has_a_quick_one_beside_it() -> None:
    slow = tiers.slow()
    files = sorted({name.partition("::")[0] for test in slow for name in (test.name, test.stands_for_it) if name})
    listed = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "--quiet", "-p", "no:cacheprovider", *files],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    collected = set(listed.stdout.splitlines())
    assert collected >= {test.name for test in slow}, "tests/slow.txt names what is no test"
    quick = collected - {test.name for test in slow}
    functions = {name.partition("[")[0] for name in quick}
    for test in slow:
        if test.stands_for_it is None:
            assert test.function in functions, f"{test.name}: no case of it is quick"
        else:
            assert test.stands_for_it in quick, f"{test.name}: {test.stands_for_it} is no quick test"
