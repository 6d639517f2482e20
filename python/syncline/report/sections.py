"""Sections of the report about the study as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from syncline.report import charts, charts_ace, charts_transport, declared
from syncline.report.classes import class_tables
from syncline.report.declared import PER_ITERATION
from syncline.report.escape import html_text
from syncline.report.headline import cause, exposed_share, headline, npus, one_more, timeouts, words
from syncline.report.markup import Cell, Charts, Column, chart, choice, hint, note, reproduce, section, table, tabs
from syncline.results.series import merged_count, window_width, windows
from syncline.results.study import Study, Variant, mapping, texts
from syncline.results.units import (
    MISSING,
    Scale,
    byte_scale,
    factor,
    number,
    percent,
    rate_scale,
    ratio,
    size,
    time,
    time_scale,
)

TOP = 10
LINK_DEMAND = (
    "Time that links would need for their bytes, divided by the time of the run: this backend ignores contention"
)


def headline_section(study: Study, figures: Charts) -> str:
    """The sentence, the bar and the numbers behind it."""
    body = f'<p class="headline">{html_text(headline(study))}</p>'
    body += "".join(f'<p class="headline">{html_text(text)}</p>' for text in timeouts(study))
    body += "".join(map(hint, [*one_more(study), *npus(study)]))
    body += chart(
        figures,
        "chart-breakdown",
        charts.breakdown(study),
        "No variant reports a time, so there is no bar to draw.",
        "Stacked bars of compute and exposed communication per variant",
    )
    if study.variants:
        body += summary_table(study) + class_tables(study)
    return section("headline", "Headline", body)


def summary_table(study: Study) -> str:
    """One row per variant: of training loops, and of collectives on their own in the terms of nccl-tests."""
    single = [v for v in study.variants if v.is_collective]
    training = [v for v in study.variants if not v.is_collective]
    return (training_table(study, training) if training else "") + (single_table(study, single) if single else "")


def summary_scale(study: Study) -> Scale:
    """The unit of the times of training loops in the headline's table."""
    return time_scale(x for v in study.variants if not v.is_collective for x in (v.time_s, v.steady_s))


def training_table(study: Study, variants: Sequence[Variant]) -> str:
    """Training loops: times are means per iteration."""
    total = summary_scale(study)
    rate = rate_scale(v.achieved_bytes_per_s for v in variants)
    stretched = any(v.compute_alone_s not in (None, v.compute_s) for v in variants)
    bubbles = any(v.bubble_s for v in variants)
    drained = any(v.drain_s for v in variants)
    steady = any(v.steady_because for v in variants)
    compared = _compared(study)
    demanded = any(v.link_demand is not None for v in variants)
    columns = [
        Column("variant", numeric=False),
        Column(
            "iteration" if study.is_training else "time", total.unit, hint="Length of the run divided by its iterations"
        ),
        *([Column("steady", total.unit, hint="What one more iteration costs in a long run")] if steady else []),
        declared.of_summary("compute_ps", "compute", total.unit, PER_ITERATION),
        *([declared.of_summary("compute_alone_ps", "alone", total.unit, PER_ITERATION)] if stretched else []),
        declared.of_summary("exposed_ps", "exposed", total.unit, PER_ITERATION),
        Column("exposed share", "%"),
        *([declared.of_summary("bubble_ps", "bubble", total.unit, PER_ITERATION)] if bubbles else []),
        *(
            [declared.of_summary("drain_ps", "drain", total.unit, "A share of it for each iteration.")]
            if drained
            else []
        ),
        *(column for column, _ in compared),
        Column("bandwidth", rate.unit, hint="Bytes that an NPU sends, divided by the length of the run"),
        declared.of_summary("network.mean_link_utilisation", "links busy", "%"),
        *([Column("link demand", "%", hint=LINK_DEMAND)] if demanded else []),
    ]
    rows = [
        [
            v.name,
            total.text(v.time_s),
            *([total.text(v.steady_s)] if steady else []),
            total.text(v.per_iteration(v.compute_s)),
            *([total.text(v.per_iteration(v.compute_alone_s))] if stretched else []),
            total.text(v.per_iteration(v.exposed_s)),
            percent(exposed_share(v)).removesuffix(" %"),
            *([total.text(v.per_iteration(v.bubble_s))] if bubbles else []),
            *([total.text(v.per_iteration(v.drain_s))] if drained else []),
            *(cell(v) for _, cell in compared),
            rate.text(v.achieved_bytes_per_s),
            percent(v.link_share).removesuffix(" %"),
            *([percent(v.link_demand).removesuffix(" %")] if demanded else []),
        ]
        for v in variants
    ]
    return table("summary", columns, rows)


def single_table(study: Study, variants: Sequence[Variant]) -> str:
    """Collectives on their own, in the terms of nccl-tests."""
    total = time_scale(v.time_s for v in variants)
    sizes = byte_scale(v.size_bytes for v in variants)
    rate = rate_scale(x for v in variants for x in (v.algorithm_bytes_per_s, v.bus_bytes_per_s))
    compared = _compared(study)
    demanded = any(v.link_demand is not None for v in variants)
    columns = [
        Column("variant", numeric=False),
        Column("collective", numeric=False),
        Column("size", sizes.unit, hint="As nccl-tests counts it"),
        Column("time", total.unit),
        Column("algbw", rate.unit, hint="Size divided by time"),
        Column("busbw", rate.unit, hint="Algorithm bandwidth times the factor of nccl-tests for the collective"),
        declared.of_summary("lower_bound_ps", "lower bound", total.unit),
        Column("efficiency", "%", hint="Lower bound divided by time"),
        *(column for column, _ in compared),
        declared.of_summary("network.mean_link_utilisation", "links busy", "%"),
        *([Column("link demand", "%", hint=LINK_DEMAND)] if demanded else []),
    ]
    rows = [
        [
            v.name,
            str(v.run.get("collective")),
            sizes.text(v.size_bytes),
            total.text(v.time_s),
            rate.text(v.algorithm_bytes_per_s),
            rate.text(v.bus_bytes_per_s),
            total.text(v.lower_bound_s),
            percent(ratio(v.lower_bound_s, v.time_s)).removesuffix(" %"),
            *(cell(v) for _, cell in compared),
            percent(v.link_share).removesuffix(" %"),
            *([percent(v.link_demand).removesuffix(" %")] if demanded else []),
        ]
        for v in variants
    ]
    return table("collective-summary", columns, rows)


def _compared(study: Study) -> list[tuple[Column, Callable[[Variant], str]]]:
    """What compares variants with the baseline and with the bound."""
    baseline, bound = study.baseline, study.ideal
    found: list[tuple[Column, Callable[[Variant], str]]] = []
    if baseline is not None and len(study.variants) > 1:
        column = Column(
            f"speed-up over {baseline.name}",
            hint=f"Time of {baseline.name}, the baseline, divided by the time of the variant",
        )
        found.append((column, lambda v: factor(ratio(baseline.time_s, v.time_s))))
    if bound is not None:
        column = Column(f"of {bound.name}", "%", hint=f"Time of {bound.name} divided by the time of the variant")
        found.append((column, lambda v: percent(ratio(bound.time_s, v.time_s)).removesuffix(" %")))
    return found


def why_section(study: Study, reasons: str = "") -> str:
    """The `reasons` that are known, which collectives are waited for, and which resources their messages wait for."""
    body = "".join(f"<li>{html_text(s)}</li>" for s in cause(study))
    listed = f'<ul class="causes">{body}</ul>' if body else ""
    exposed = f"<h3>Exposed time by collective</h3>{listed}{exposure_table(study)}"
    body = reasons + (exposed if study.is_training else listed)
    body += "<h3>Waiting for resources</h3>" + resource_table(study)
    body += "<h3>Bytes moved for communication</h3>" + traffic_table(study)
    body += "<h3>Where chunks and messages spend their time</h3>" + breakdown_table(study)
    return section("why", "Why", body)


def exposure_table(study: Study) -> str:
    """Collectives by variants; the ten largest of each variant, the others in one row."""
    shown = [v for v in study.variants if v.exposures]
    if not shown:
        return note("No communication is exposed: no variant waits for a collective.")
    times: list[dict[tuple[str, str], float]] = []
    for v in shown:
        sums: dict[tuple[str, str], float] = {}
        for e in v.exposures:
            key = (e.layer, e.what)
            sums[key] = sums.get(key, 0.0) + e.exposed_s / max(1, v.iterations)
        times.append(sums)
    keys: set[tuple[str, str]] = set()
    for sums in times:
        keys |= set(sorted(sums, key=lambda k: (-sums[k], k))[:TOP])
    ordered = sorted(keys, key=lambda k: (-max(s.get(k, 0.0) for s in times), k))
    largest = max(max(s.values()) for s in times)
    scale = time_scale(sum(s.values()) for s in times)
    columns = [
        Column("layer", numeric=False),
        Column("pass", numeric=False),
        *(Column(v.name, scale.unit, width=72 // len(shown)) for v in shown),
    ]

    def cell(value: float) -> Cell | str:
        return Cell(scale.text(value), bar=value / largest) if value else MISSING

    rows = [[layer, words(what), *(cell(s.get((layer, what), 0.0)) for s in times)] for layer, what in ordered]
    rest = [sum(t for k, t in s.items() if k not in keys) for s in times]
    others = len({k for s in times for k in s} - keys)
    foot: list[str | Cell] = ["all", f"and {others} more" if others else ""]
    foot += [
        Cell(scale.text(sum(s.values())), below=f"{scale.text(r)} in others" if r else "")
        for s, r in zip(times, rest, strict=True)
    ]
    how = hint(
        "Time that the compute engine waited, by the collective that ended the wait; mean per "
        f"iteration. The {TOP} largest of each variant."
    )
    silent = [v.name for v in study.variants if v not in shown]
    if silent:
        how += hint(f"Nothing is exposed in {', '.join(silent)}.")
    return how + table("exposed", columns, rows, foot)


def resource_table(study: Study) -> str:
    """Resources by variants: how long work waited for each."""
    shown = [v for v in study.variants if v.resources]
    if not shown:
        return note("No endpoint of this study reports resources (an ideal endpoint has none).")
    tables = [dict(v.resources) for v in shown]
    names = list(dict.fromkeys(name for t in tables for name in t))
    waits = [t[n]["wait_s"] or 0.0 for t in tables for n in t]
    largest = max(waits, default=0.0)
    scale = time_scale(waits)
    columns = [
        Column("resource", numeric=False),
        *(Column(v.name, scale.unit, width=min(30, 84 // len(shown))) for v in shown),
    ]

    def cell(row: dict[str, float | None] | None) -> Cell | str:
        if row is None:
            return MISSING
        each = ratio(row["wait_s"], row["served"])
        return Cell(
            scale.text(row["wait_s"]),
            heat=(row["wait_s"] or 0.0) / largest if largest else 0.0,
            below=f"{time(each)} each" if each else "no wait" if each == 0 else "",
        )

    names.sort(key=lambda n: (-max(t.get(n, {}).get("wait_s") or 0.0 for t in tables), n))
    rows = [[words(n), *(cell(t.get(n)) for t in tables)] for n in names]
    how = hint(
        f"{declared.row('endpoint.resources.wait_ps')}, over all NPUs and the whole run (below it: per piece of work). "
        "Pieces of work wait at the same time, so a sum may exceed the run; a dash means that the endpoint has no such "
        "resource."
    )
    return how + table("resources", columns, rows)


TRAFFIC = ("memory_read_bytes", "memory_write_bytes", "sent_bytes", "sent_by_switches_bytes")
"""What endpoints move, as their totals name it."""


def traffic_table(study: Study) -> str:
    """What communication takes of the memory and puts on the wires, by variants."""
    moved = [v.endpoint for v in study.variants]
    called = {name: declared.row(f"endpoint.{name}") for name in TRAFFIC}
    found = _by_variant("bytes", study, moved, called, byte_scale)
    if found is None:
        return note("No endpoint of this study reports what it moved.")
    return hint("Over the whole run.") + table("traffic", *found)


BREAKDOWN = {
    "chunk_queue_s": "chunk_queue_ps",
    "bus_queue_s": "bus_queue_ps",
    "bus_transfer_s": "bus_transfer_ps",
    "network_s": "network_ps",
}
"""Where chunks and messages spend their time: the means of the document, and the sums that they are of."""


def breakdown_table(study: Study) -> str:
    """Mean times of chunks and messages, by variants."""
    spent = [mapping(v.endpoint.get("breakdown")) for v in study.variants]
    called = {name: declared.row(f"endpoint.breakdown.{of}") for name, of in BREAKDOWN.items()}
    found = _by_variant("mean of a chunk or message", study, spent, called, time_scale)
    if found is None:
        return note("No endpoint of this study reports where chunks and messages spend their time.")
    return hint("Means over all NPUs.") + table("breakdown", *found)


def _by_variant(
    heading: str,
    study: Study,
    totals: Sequence[Mapping[str, Any]],
    called: Mapping[str, str],
    scale_of: Callable[[Iterable[float | None]], Scale],
) -> tuple[list[Column], list[list[str]]] | None:
    """Columns for the variants and a row for each total that any of them has; nothing without rows."""
    found = [(text, [number(each.get(key)) for each in totals]) for key, text in called.items()]
    shown = [(text, row) for text, row in found if any(row)]
    if not shown:
        return None
    scale = scale_of(value for _, row in shown for value in row)
    columns = [Column(heading, numeric=False), *(Column(v.name, scale.unit) for v in study.variants)]
    return columns, [[text, *(scale.text(value) for value in row)] for text, row in shown]


def utilisation_section(study: Study, figures: Charts) -> str:
    """Compute and links over time."""
    figure = charts.utilisation(study, charts_transport.timeline_marks)
    body = ""
    if figure is not None:
        limit = charts.utilisation_limit(study)
        merged = max(merged_count(v.length("windows"), limit) for v in study.variants)
        widths = sorted({w for v in study.variants if (w := window_width(v)) is not None})
        body += hint(
            "Busy share in windows"
            + (f" of {time(widths[0])}" if widths and widths[-1] < 1.001 * widths[0] else "")
            + "; all panels share their axes. Drag to zoom in time, double-click to return."
            + (f" A point is the mean of up to {merged} windows." if merged > 1 else "")
            + (" Marks: frames dropped, and timeouts." if charts_transport.has_losses(study) else "")
        )
        options = charts.link_options(study)
        body += choice("chart-utilisation", "Links", [(option, option) for option in options])
    body += chart(
        figures,
        "chart-utilisation",
        figure,
        "No variant recorded windows of utilisation.",
        "Busy share of compute and links over time, one panel per variant",
    )
    return section("utilisation", "Utilisation over time", body)


def ace_section(study: Study, figures: Charts, chosen: int) -> str:
    """Occupancy of the ACEs; absent where no variant has one."""
    aces = [(i, v.name) for i, v in enumerate(study.variants) if v.partitions and v.endpoint.get("fsms")]
    if not aces:
        return ""

    def panel(i: int) -> str:
        v = study.variants[i]
        return (
            f'<p class="facts-line">{html_text(ace_sentence(v))}</p>'
            + chart(
                figures,
                f"chart-ace-{i}",
                charts_ace.occupancy(v, len(aces)),
                "No chunk passed through this ACE, or no windows were recorded.",
                f"Occupancy of the ACE of {v.name} over time",
            )
            + "<h3>Partitions of the SRAM</h3>"
            + chart(
                figures,
                f"chart-partitions-{i}",
                charts_ace.partitions(v),
                "The partitions have no capacity to show.",
                f"Peak and capacity of the SRAM partitions of {v.name}",
            )
            + fsm_table(v, i)
        )

    return section("ace", "ACE occupancy", tabs("ace", aces, chosen, panel))


def fsm_table(v: Variant, number: int) -> str:
    """FSMs by phase; nothing where a document does not say."""
    if not v.phases:
        return ""
    columns = [
        Column("phase", numeric=False),
        declared.of_summary("endpoint.phases.fsms", "FSMs"),
        declared.of_summary("endpoint.phases.fsm_peak", "busy at once"),
    ]
    rows = [[str(p.get("phase", "")), str(p.get("fsms", MISSING)), str(p.get("fsm_peak", MISSING))] for p in v.phases]
    return "<h3>FSMs of the phases</h3>" + table(f"fsms-{number}", columns, rows)


def ace_sentence(v: Variant) -> str:
    """Peaks in words."""
    parts = []
    active = windows(v, ["ace_active"], charts.MAX_POINTS)
    if active is not None and (share := active.means().get("ace_active")) is not None:
        parts.append(f"it holds a chunk for {percent(share)} of the run")
    peak, fsms = number(v.endpoint.get("fsm_peak")), number(v.endpoint.get("fsms"))
    if peak is not None and fsms:
        parts.append(f"at most {peak:g} of {fsms:g} FSMs are busy at once")
    fullest = max(
        (ratio(number(p.get("peak_bytes")), number(p.get("capacity_bytes"))) or 0.0 for p in v.partitions),
        default=0.0,
    )
    parts.append(f"its fullest partition reaches {percent(fullest, 0)} of its capacity")
    cost = mapping(v.run.get("cost_model"))
    area, power = number(cost.get("area_um2")), number(cost.get("power_w"))
    if area is not None and power is not None:
        parts.append(
            f"as synthesised in {cost.get('technology_nm')} nm it takes {area / 1e6:.2f} mm\u00b2 and {power:.2f} W"
        )
    energy = number(cost.get("energy_per_iteration_j"))
    if energy is not None:
        parts.append(f"at most {1e3 * energy:.2f} mJ per iteration")
    performance = number(cost.get("iterations_per_s_per_mm2"))
    if performance is not None:
        parts.append(f"{performance:.1f} iterations per second and mm\u00b2")
    text = "; ".join(parts)
    return text[0].upper() + text[1:] + "."


def facts_section(study: Study, command: str) -> str:
    """Assumptions, warnings, and what reproduces the study."""
    d = study.document
    body = ""
    for key, title, empty in (
        ("warnings", "Warnings", "No warnings."),
        ("assumptions", "Assumptions in force", "No value was assumed."),
    ):
        lines = "".join(f"<li>{html_text(t)}</li>" for t in texts(d.get(key)))
        body += f"<h3>{title}</h3>" + (f'<ul class="{key}">{lines}</ul>' if lines else note(empty))
    body += columns_table(study)
    body += reproduce(command)
    pairs = "".join(f"<div><dt>{html_text(k)}</dt><dd>{html_text(v)}</dd></div>" for k, v in facts(study))
    return section("facts", "Assumptions and how to reproduce", body + f'<dl class="facts">{pairs}</dl>')


def columns_table(study: Study) -> str:
    """What the columns of the run's tables say; nothing where there are no tables."""
    names = [name for name in declared.tables() if any(v.length(name) for v in study.variants)]
    if not names:
        return ""
    columns = [Column(title, numeric=False) for title in ("table", "column", "unit", "meaning")]
    rows = [[name, c.name, c.unit, c.meaning] for name in names for c in declared.columns(name)]
    how = hint(f"The directory of the run holds {len(names)} tables of each variant, with these columns.")
    return "<h3>Columns of the tables</h3>" + how + table("columns", columns, rows)


def facts(study: Study) -> list[tuple[str, str]]:
    """What identifies the study."""
    d = study.document
    fidelity, cost = mapping(d.get("fidelity")), mapping(d.get("cost"))
    events = number(cost.get("events"))
    folded = fidelity.get("folded")
    simulated = fidelity.get("simulated_npus")
    found: list[tuple[str, Any]] = [
        ("Version", d.get("version")),
        ("Seed", d.get("seed")),
        ("Schema version", d.get("schema_version")),
        ("Status", d.get("status")),
        ("Topology", d.get("topology") or _topologies(study)),
        ("Network backend", fidelity.get("backend")),
        ("Mode", fidelity.get("mode")),
        ("Folded by symmetry", None if folded is None else folded if folded == "mixed" else "yes" if folded else "no"),
        ("NPUs simulated", simulated),
        ("Not folded because", fidelity.get("unfolded_because")),
        *_chosen_algorithms(study),
        *_chosen_slices(study),
        ("Wall time", time(w) if (w := number(cost.get("wall_time_s"))) is not None else None),
        ("Peak memory", size(m) if (m := number(cost.get("peak_rss_bytes"))) is not None else None),
        ("Events", f"{events:,.0f}" if events is not None else None),
    ]
    return [(k, str(v)) for k, v in found if v is not None]


def _chosen_algorithms(study: Study) -> list[tuple[str, str]]:
    """What `auto` stands for in the variants that have it, and why."""
    choices = [(v.name, mapping(v.run.get("algorithm_choice"))) for v in study.variants]
    return [
        (f"Algorithm of {name} (auto)", f"{choice['chosen']}: {choice.get('because') or 'no reason is recorded'}")
        for name, choice in choices
        if choice.get("chosen")
    ]


def _chosen_slices(study: Study) -> list[tuple[str, str]]:
    """The sizes of slices that were found over iterations, in the variants that have them."""
    choices = [(v.name, mapping(v.run.get("slices_choice"))) for v in study.variants]
    return [
        (f"Slices of {name} ({str(found.get('by')).upper()})", f"{size(length)}: {found.get('because')}")
        for name, found in choices
        if (length := number(found.get("slice_bytes"))) is not None
    ]


def _topologies(study: Study) -> str | None:
    """The fabric of all variants, or each with theirs."""
    named = [(v.name, str(v.run.get("topology") or "")) for v in study.variants]
    if not all(topology for _, topology in named):
        return None
    found = {topology for _, topology in named}
    return found.pop() if len(found) == 1 else "; ".join(f"{name}: {topology}" for name, topology in named)


def variant_labels(study: Study) -> list[tuple[int, str]]:
    """All variants for a row of tabs."""
    return [(i, v.name) for i, v in enumerate(study.variants)]
