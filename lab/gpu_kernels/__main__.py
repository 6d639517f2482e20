"""`python -m lab.gpu_kernels`: errors of constants by kind of kernels, and of iterations; `--fit` fits them first."""

from __future__ import annotations

import argparse
import sys
from itertools import groupby
from statistics import mean
from typing import Final

import yaml

from lab.gpu_kernels import errors, iterations
from lab.gpu_kernels.errors import BANDWIDTHS, FOLDER, known, modelled
from lab.gpu_kernels.fit import Constants
from lab.gpu_kernels.rows import Row

DIGITS: Final = 4


def main() -> int:
    """Prints, and fits."""
    parser = argparse.ArgumentParser(prog="python -m lab.gpu_kernels", description=__doc__)
    parser.add_argument("--fit", action="store_true", help="fit the constants anew, and keep them")
    parser.add_argument("--kernels", metavar="NAME", help="the kernels of iterations whose name has this in it")
    parser.add_argument("--record", action="store_true", help="keep the errors of all kernels for docs/validation.md")
    options = parser.parse_args()
    if options.fit:
        for gpu in ("h200", "h100", "h200"):  # each has constants of the other
            _keep(gpu, errors.refitted(gpu, modelled(gpu)))
    if options.record:
        errors.keep()
    for gpu in BANDWIDTHS:
        print(f"{gpu}\n")
        found = modelled(gpu)
        each = sorted(zip(found, errors.errors(found, known(gpu), gpu), strict=True), key=lambda pair: _group(pair[0]))
        for (kind, set_), pairs in groupby(each, key=lambda pair: _group(pair[0])):
            of = [error for _, error in pairs]
            print(f"{kind:32} {set_:10} {len(of):4}  {mean(map(abs, of)):6.1%}  bias {mean(of):+6.1%}")
        print()
    for iteration in iterations.measured():
        time_ms, by_kind = iterations.predicted(iteration, known())
        error = time_ms / iteration.measured_ms - 1
        number = sum(kernels for _, kernels in by_kind.values())
        print(
            f"{iteration.name:30} {time_ms:7.2f} ms of {iteration.measured_ms:7.2f} {error:+6.1%}"
            f"  {number} kernels of {iteration.kernels or 'unknown'}"
        )
        if options.kernels and options.kernels in iteration.name:
            for kind, (part_ms, kernels) in sorted(by_kind.items(), key=lambda item: -item[1][0]):
                print(f"    {kind:36} {part_ms:7.2f} ms {kernels:5}")
    return 0


def _group(row: Row) -> tuple[str, str]:
    images = row.operator in ("convolution", "batch-norm", "max-pool")
    return (f"{row.operator} {row.layout}" if images else row.kind, row.set)


def _keep(gpu: str, constants: Constants) -> None:
    text = yaml.safe_dump(_rounded(constants), sort_keys=False, default_flow_style=None, width=120)
    (FOLDER / f"{gpu}.yaml").write_text(text)


def _rounded(value: Constants) -> Constants:
    def of(value: object) -> object:
        match value:
            case float():
                return float(f"{value:.{DIGITS}g}")
            case list():
                return [of(each) for each in value]
            case dict():
                return {name: of(each) for name, each in value.items()}
        return value

    found = of(value)
    assert isinstance(found, dict)
    return found


if __name__ == "__main__":
    sys.exit(main())
