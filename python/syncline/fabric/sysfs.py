"""The PCI devices that the Linux kernel lists, as a topology of NCCL.

    bus/pci/devices/0000:07:00.0 -> ../../../devices/pci0000:00/0000:00:02.0/0000:03:00.0/0000:04:08.0/0000:07:00.0

A device lies in the folder of what it is behind: after the root of the bus come a root port and, for each PCIe switch,
its upstream port and one of its downstream ports. A switch is told by its upstream port. The rate of a link is the
smaller one of what its two ends can do (`max_link_speed`, `max_link_width`): what they do at present may be less, as
idle GPUs save power. NVLinks are not listed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from xml.sax.saxutils import quoteattr

from syncline.base import inputs
from syncline.base.errors import InputError

GPU_CLASSES: Final = ("0x0300", "0x0302")
NVIDIA: Final = "0x10de"
MOST_DEVICES: Final = 65_536
MOST_BYTES: Final = 4096
"""What a file of the kernel has at most: a page."""

_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_SPEED = re.compile(r"([0-9]+(?:\.[0-9]+)?) GT/s")
_CPU = re.compile(r"cpu:type:\w+,ven([0-9A-Fa-f]{4})fam[0-9A-Fa-f]{4}mod([0-9A-Fa-f]{4})")
_VENDORS: Final = {0: "GenuineIntel", 2: "AuthenticAMD"}
"""By the kernel's numbers of vendors (`X86_VENDOR_INTEL`, `X86_VENDOR_AMD`)."""


@dataclass(slots=True)
class _Device:
    """A switch or a GPU, with what is behind it."""

    folder: Path
    below: dict[str, _Device] = field(default_factory=dict)
    is_gpu: bool = False


def nccl_xml(root: Path) -> str | None:
    """The GPUs of NVIDIA, the PCIe switches above them and the NUMA nodes that they are near to, as NCCL writes them
    down; nothing, if there is no GPU. `root` is where the kernel's file system is (/sys).
    """
    devices = root / "bus/pci/devices"
    try:
        names = sorted(path.name for path in devices.iterdir())[:MOST_DEVICES]
    except OSError:
        return None
    nodes: dict[int, dict[str, _Device]] = {}
    for name in names:
        folder = devices / name
        if not _ADDRESS.fullmatch(name) or not _is_gpu(folder):
            continue
        folder = folder.resolve()
        numa = _text(folder / "numa_node")
        below = nodes.setdefault(int(numa) if numa.isdigit() else 0, {})
        for switch in _switches(folder):
            below = below.setdefault(switch.name, _Device(switch)).below
        below[name] = _Device(folder, is_gpu=True)
    if not nodes:
        return None
    kind = _cpu(root)
    lines = ['<system version="1">']
    for node, devices_of_node in sorted(nodes.items()):
        lines.append(f'<cpu numaid="{node}"{kind}>')
        for name, device in devices_of_node.items():
            _write(name, device, lines)
        lines.append("</cpu>")
    return "\n".join([*lines, "</system>", ""])


def _is_gpu(folder: Path) -> bool:
    return _text(folder / "vendor") == NVIDIA and _text(folder / "class").startswith(GPU_CLASSES)


def _switches(folder: Path) -> list[Path]:
    """The upstream ports above a device, from the root on."""
    bridges = [parent for parent in folder.parents if _ADDRESS.fullmatch(parent.name)][::-1]
    return bridges[1::2] if len(bridges) > 2 else []


def _write(name: str, device: _Device, lines: list[str]) -> None:
    kind = _text(device.folder / "class") if device.is_gpu else "0x060400"
    speed, width = _link(device.folder)
    link = f"link_speed={quoteattr(speed)} link_width={quoteattr(width)}"
    ids = (f" {key}={quoteattr(_text(device.folder / key))}" for key in ("vendor", "device") if device.is_gpu)
    lines.append(f"<pci busid={quoteattr(name)} class={quoteattr(kind)} {link}{''.join(ids)}>")
    for inner, below in device.below.items():
        _write(inner, below, lines)
    lines.append("</pci>")


def _link(folder: Path) -> tuple[str, str]:
    """Speed and width of the link above a device: what both its ends can do. Empty where they do not say."""
    ends = [end for end in (folder, folder.parent) if _ADDRESS.fullmatch(end.name)]
    speeds = [match for match in (_SPEED.match(_text(end / "max_link_speed")) for end in ends) if match]
    widths = [int(text) for text in (_text(end / "max_link_width") for end in ends) if text.isdigit() and text != "0"]
    speed = min(speeds, key=lambda match: float(match[1]))[0] if speeds else ""
    return speed, str(min(widths)) if widths else ""


def _cpu(root: Path) -> str:
    """Attributes that say what the CPUs are, as far as the kernel does."""
    match = _CPU.match(_text(root / "devices/system/cpu/modalias"))
    vendor = _VENDORS.get(int(match[1], 16)) if match else None
    return "" if match is None or vendor is None else f' arch="x86_64" vendor="{vendor}" modelid="{int(match[2], 16)}"'


def _text(path: Path) -> str:
    try:
        return inputs.read_bytes(path, str(path), MOST_BYTES).decode("ascii").strip()
    except (InputError, UnicodeDecodeError):
        return ""
