"""What there is by name: studies, machines, models and so on, each with a line of what it is.

Nothing is described here: a line is what the file, or the object, says of itself. `syncline list` prints this, and
shells complete names from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from syncline.base import collective_names, document, inputs, text_units
from syncline.experiment import packaged as studies
from syncline.fabric import gpus, machines
from syncline.models import file
from syncline.nccl import constants
from syncline.results import entries as results
from syncline.sections import algorithms, endpoints, networks
from syncline.studies.reproduction import ledger

if TYPE_CHECKING:
    from syncline.fabric.gpus import Gpu
    from syncline.fabric.machines import Machine

Known = Mapping[str, Callable[[], str]]
"""By the names of things, in their order, what gives the text of each."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Something that has a name."""

    name: str
    says: str
    """What it is, in a line."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of things that have names."""

    name: str
    """In the plural."""
    says: str
    """Where names of this kind are given."""
    known: Callable[[], Known]
    """The names, which are known at once, and what gives their texts."""

    def names(self) -> list[str]:
        """The names, in their order."""
        return list(self.known())

    def entries(self) -> list[Entry]:
        """All of them, in their order."""
        return [Entry(name, _line(says())) for name, says in self.known().items()]


def _line(text: str) -> str:
    """The first sentence of a text, or all of it up to an empty line, without a full stop."""
    paragraph = " ".join(text.strip().partition("\n\n")[0].split())
    return re.split(r"\.\s+(?=[A-Z(])", paragraph, maxsplit=1)[0].removesuffix(".")


def _of_file(path: Path) -> str:
    """What a file says of itself under `description`, or in the comments that it begins with."""
    text = path.read_text(encoding="utf-8")
    found = document.plain(document.read(text, path.name))
    assert isinstance(found, dict)
    said = found.get("description") or found.get("title")
    comments = (line.removeprefix("#").strip() for line in text.splitlines() if line.startswith("#"))
    return str(said) if said else next(comments, "")


def _packaged(kind: str) -> Callable[[], Known]:
    """The studies of a kind."""

    def known() -> Known:
        suffix, names, _ = studies.KINDS[kind]
        return {name: partial(_of_file, studies.FOLDER / f"{name}{suffix}") for name in names()}

    return known


def _examples(*, search: bool) -> Callable[[], Known]:
    """The examples of experiments, or those of searches, by the paths that commands take."""

    def known() -> Known:
        files = sorted(inputs.EXAMPLES.rglob("*.yaml"))
        folder = inputs.EXAMPLES.parent
        chosen = [file for file in files if file.name.endswith(".search.yaml") == search]
        return {file.relative_to(folder).as_posix(): partial(_of_file, file) for file in chosen}

    return known


def _machines() -> Known:
    return {name: partial(_machine, machine) for name, machine in machines.MACHINES.items()}


def _machine(machine: Machine) -> str:
    if machine.switch_links:
        links = f"{machine.switch_links} NVLinks of {machine.nvlink_rate / 1e9:g} GB/s each to NVSwitches"
    else:
        links = f"direct NVLinks of {machine.nvlink_rate / 1e9:g} GB/s"
    nics = f"{machine.nics} NICs of {machine.nic_rate * 8 / 1e9:g} Gb/s"
    return f"{machine.title}: {machine.gpus} x {machine.gpu.title}, {links}, {nics}"


def _gpus() -> Known:
    return {name: partial(_gpu, gpu) for name, gpu in gpus.GPUS.items()}


def _gpu(gpu: Gpu) -> str:
    peak = f"{gpu.peaks[gpu.precision(2)] / 1e12:g} TFLOP/s ({gpu.precision(2)})"
    return f"{gpu.title}: {peak}, {gpu.sms} SMs, {gpu.memory_bandwidth / 1e9:g} GB/s, {text_units.memory(gpu.memory)}"


def _models() -> Known:
    return {name: partial(_model, name) for name in file.packaged()}


def _model(name: str) -> str:
    return file.by_name(name).description


def _collectives() -> Known:
    return _said({name: f"size: {results.SIZE_MEANS[name]}" for name in collective_names.NAMES})


def _algorithms() -> Known:
    return _said(algorithms.MEANINGS)


def _endpoints() -> Known:
    return _said({name: section.__doc__ or "" for name, section in endpoints.ENDPOINTS.items()})


def _backends() -> Known:
    return _said({name: section.__doc__ or "" for name, section in networks.NETWORKS.items()})


def _said(texts: Mapping[str, str]) -> Known:
    """What stands for itself already."""
    return {name: partial(str, text) for name, text in texts.items()}


def _software() -> Known:
    return {name: partial(_constants, name) for name in constants.names()}


def _constants(name: str) -> str:
    return constants.load(name).about


def _claims() -> Known:
    return _said({claim.id: f"{claim.where}: {claim.metric}" for claim in ledger.claims()})


KINDS: Final[dict[str, Kind]] = {
    kind.name: kind
    for kind in (
        Kind("studies", "syncline run STUDY", _packaged("experiment")),
        Kind("sweeps", "syncline sweep SWEEP", _packaged("sweep")),
        Kind("figures", "syncline figure FIGURE", _packaged("figure")),
        Kind("searches", "syncline search FILE", _examples(search=True)),
        Kind("examples", "syncline run FILE", _examples(search=False)),
        Kind("machines", "topology, --machine", _machines),
        Kind("gpus", "npu.gpu", _gpus),
        Kind("models", "workload.model", _models),
        Kind("collectives", "workload.collective, KIND", _collectives),
        Kind("algorithms", "collective.algorithm, --algorithm", _algorithms),
        Kind("endpoints", "endpoint.kind, --endpoint", _endpoints),
        Kind("backends", "network.backend, --backend", _backends),
        Kind("software", "syncline bench --software CLASS", _software),
        Kind("claims", "syncline reproduce CLAIM", _claims),
    )
}
"""The kinds by name."""
