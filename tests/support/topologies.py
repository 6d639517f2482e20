"""Topology files in the forms that tools write, made from facts about machines."""

from __future__ import annotations

from collections.abc import Sequence

DGX1V_ROWS = ("01122000", "10210200", "12020010", "21200001", "20000112", "02001021", "00101202", "00012120")
"""NVLinks of a DGX-1 with V100, GPU by GPU."""
DGX1_BUSES = ("06", "07", "0a", "0b", "85", "86", "89", "8a")
DGX1_SWITCHES = ("03", "08", "82", "87")
PLAIN = 'link_speed="8 GT/s" link_width="16"'


def dgx1_xml() -> str:
    """NCCL's dump of a DGX-1 with V100, without network."""
    lines = ['<system version="1">']
    for cpu in range(2):
        kind = 'arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="79"'
        lines.append(f'  <cpu numaid="{cpu}" affinity="0000,0fffff00,000fffff" {kind}>')
        for switch in (2 * cpu, 2 * cpu + 1):
            lines.append(f'    <pci busid="0000:{DGX1_SWITCHES[switch]}:00.0" class="0x060400" {PLAIN}>')
            for gpu in (2 * switch, 2 * switch + 1):
                lines.append(f'      <pci busid="0000:{DGX1_BUSES[gpu]}:00.0" class="0x030200" {PLAIN}>')
                lines.append(f'        <gpu dev="{gpu}" sm="70" rank="{gpu}" gdr="1">')
                lines += [
                    f'          <nvlink target="0000:{DGX1_BUSES[peer]}:00.0" count="{count}" tclass="0x030200"/>'
                    for peer, count in enumerate(DGX1V_ROWS[gpu])
                    if count != "0"
                ]
                lines += ["        </gpu>", "      </pci>"]
            lines.append("    </pci>")
        lines.append("  </cpu>")
    return "\n".join([*lines, "</system>", ""])


def nvswitch_xml(switches: Sequence[str], links: int, sm: int) -> str:
    """NCCL's dump of two GPUs and a two-port NIC behind PCIe switches, with NVLinks to NVSwitches."""
    nvlinks = "".join(f'<nvlink target="{bus}" count="{links}" tclass="0x068000"/>' for bus in switches)
    gpus = "".join(
        f'<pci busid="0000:0{gpu}:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">'
        f'<pci busid="0000:0{gpu}:01.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">'
        f'<gpu dev="{gpu}" sm="{sm}" rank="{gpu}" gdr="1">{nvlinks}</gpu></pci></pci>'
        for gpu in (1, 0)
    )
    cpu = 'host_hash="0x83" arch="x86_64" vendor="AuthenticAMD" familyid="143" modelid="49"'
    return (
        '<?xml version="1.0"?><system version="1">'
        f'<cpu numaid="3" affinity="ffff" {cpu}>'
        f'<pci busid="0000:0f:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">{gpus}'
        '<pci busid="0000:61:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16"><nic>'
        '<net name="mlx5_4" dev="4" speed="200000" port="1"/><net name="mlx5_5" dev="5" speed="100000" port="2"/>'
        "</nic></pci></pci>"
        '<nic><net name="docker0" dev="6" speed="10000"/></nic>'
        f'</cpu><cpu numaid="1" {cpu}/></system>'
    )


CLOUD_XML = """<!-- A file that a cloud provides: GPUs and NICs by class alone. -->
<system version="1">
  <cpu numaid="0" affinity="00ff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">
    <pci busid="ffff:ff:01.0" class="0x060400" link_speed="8 GT/s" link_width="16">  <!-- switch -->
      <pci busid="0000:10:1c.0" class="0x030200" link_speed="8 GT/s" link_width="16"/>
      <pci busid="0000:10:1d.0" class="0x030200" link_speed="8 GT/s" link_width="16"/>
      <pci busid="0000:10:1b.0" class="0x020000" link_speed="8 GT/s" link_width="16"/>
    </pci>
  </cpu>
  <cpu numaid="1" affinity="ff00" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">
    <pci busid="0001:00:00.0" class="0x030200" link_speed="" link_width="255"/>
  </cpu>
</system>
"""


def matrix(rows: Sequence[str], affinities: Sequence[str] = (), separator: str = "\t") -> str:
    """The output of `nvidia-smi topo -m` with cells such as `NV1 SYS`, one row per GPU."""
    names = [f"GPU{index}" for index in range(len(rows))]
    heading = [*names, "CPU Affinity"] if affinities else names
    lines = [separator.join(["", *heading])]
    for index, row in enumerate(rows):
        cells = [f" {cell} " if cell == "X" else cell for cell in row.split()]
        lines.append(separator.join([names[index], *cells, *affinities[index : index + 1]]))
    return "\n".join([*lines, "", "Legend:", "", "  X    = Self", "  NV#  = a bonded set of # NVLinks", ""])


def dgx1_matrix(separator: str = "\t", far: str = "SYS") -> str:
    """`nvidia-smi topo -m` of a DGX-1 with V100 and its four InfiniBand adapters."""
    nics = ("PIX SYS PHB SYS", "PHB SYS PIX SYS", "SYS PIX SYS PHB", "SYS PHB SYS PIX")
    heading = [f"GPU{i}" for i in range(8)] + ["mlx5_0", "mlx5_2", "mlx5_1", "mlx5_3"]
    lines = [separator.join(["", *heading, "CPU Affinity"])]
    for gpu, row in enumerate(DGX1V_ROWS):
        cells = [" X " if peer == gpu else far if n == "0" else f"NV{n}" for peer, n in enumerate(row)]
        near = nics[gpu // 2].replace("SYS", far).split()
        lines.append(separator.join([f"GPU{gpu}", *cells, *near, "0-19,40-59" if gpu < 4 else "20-39,60-79"]))
    between = ("X SYS PHB SYS", "SYS X SYS PHB", "PHB SYS X SYS", "SYS PHB SYS X")
    columns = [" ".join(row).replace("SYS", far).split() for row in zip(*(n.split() for n in nics), strict=True)]
    for nic, row in enumerate(between):
        to_gpus = [columns[nic][gpu // 2] for gpu in range(8)]
        lines.append(separator.join([heading[8 + nic], *to_gpus, *row.replace("SYS", far).split(), ""]))
    return "\n".join([*lines, "", "Legend:", ""])


def full(gpus: int, cell: str) -> list[str]:
    """Rows in which every GPU says the same of every other."""
    return [" ".join("X" if a == b else cell for b in range(gpus)) for a in range(gpus)]


def of_devices(*devices: str, vendor: str = "0x10de", link: str = PLAIN, inside: str = "") -> str:
    """NCCL's dump of GPUs with these PCI device ids below one CPU."""
    gpus = "".join(
        f'<pci busid="0000:0{number}:00.0" class="0x030200" vendor="{vendor}" device="{device}" {link}>'
        f'<gpu dev="{number}" rank="{number}">{inside}</gpu></pci>'
        for number, device in enumerate(devices, 1)
    )
    return f"<system><cpu>{gpus}</cpu></system>"
