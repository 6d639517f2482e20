"""`python -m lab.gpu_kernels`: errors of the H100's constants by kind of kernels; `--fit` fits them anew first."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from statistics import mean
from typing import Final

import yaml

from lab.gpu_kernels import fit, rows
from lab.gpu_kernels.fit import Constants
from lab.gpu_kernels.rows import Row
from syncline import kernels

CONSTANTS: Final = Path(kernels.__file__).with_name("h100.yaml")
DIGITS: Final = 4
NOT_MODELLED: Final = ("convolution", "batch-norm", "max-pool")
"""Operators of images, which the model does not tell apart yet."""


def known() -> Constants:
    """The constants as they were fitted last."""
    found: Constants = yaml.safe_load(CONSTANTS.read_text())
    return found


def modelled() -> list[Row]:
    """The rows that the model is for."""
    return [row for row in rows.read() if row.operator not in NOT_MODELLED]


def errors(found: Sequence[Row], constants: Constants) -> list[float]:
    """Predicted over measured times, minus one."""
    return [us / row.time_us - 1 for us, row in zip(fit.predicted_us(found, constants), found, strict=True)]


def main() -> int:
    """Prints, and fits."""
    parser = argparse.ArgumentParser(prog="python -m lab.gpu_kernels", description=__doc__)
    parser.add_argument("--fit", action="store_true", help="fit the constants anew, and keep them")
    options = parser.parse_args()
    found, constants = modelled(), known()
    if options.fit:
        constants = _rounded(fit.all_of(found, constants))
        CONSTANTS.write_text(yaml.safe_dump(constants, sort_keys=False, default_flow_style=None, width=120))
    each = sorted(zip(found, errors(found, constants), strict=True), key=lambda pair: (pair[0].kind, pair[0].set))
    for (kind, set_), pairs in groupby(each, key=lambda pair: (pair[0].kind, pair[0].set)):
        of = [error for _, error in pairs]
        print(f"{kind:24} {set_:10} {len(of):4}  {mean(map(abs, of)):6.1%}  bias {mean(of):+6.1%}")
    return 0


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
