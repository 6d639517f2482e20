"""Sections of the report with one panel per variant: layers, links, collectives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from syncline.core import facts
from syncline.report import charts, charts_fabric, charts_heat, declared
from syncline.report.declared import PER_ITERATION
from syncline.report.headline import words
from syncline.report.markup import Cell, Charts, Column, Row, chart, choice, hint, note, section, table, tabs
from syncline.report.sections import summary_scale, variant_labels
from syncline.results.study import Study, Variant, seconds
from syncline.results.units import Scale, byte_scale, count_scale, number, percent, rate_scale, ratio, size, time_scale

ROW_BUDGET = 3000
"""Rows of one kind of table over all variants, so that a page stays small."""

_LAYER_TIMES = ["forward_ps", "input_grad_ps", "weight_grad_ps", "update_ps"]
_LAYER_SUMS = ["compute_ps", "comm_bytes", "collectives", "exposed_ps"]
"""Sums over the whole run, shown per iteration."""
_LAYER_WAITS = ["raw_latency_ps", "queue_ps"]
"""Means over collectives, of which there is no sum."""


def _row_limit(study: Study) -> int:
    return max(50, ROW_BUDGET // max(1, len(study.variants)))


def _largest(rows: Sequence[int], weights: Sequence[tuple[float, float]], limit: int) -> list[int]:
    """The rows that matter most, in their own order."""
    if len(rows) <= limit:
        return list(rows)
    return sorted(sorted(rows, key=lambda i: (-weights[i][0], -weights[i][1], i))[:limit])


def layers_section(study: Study, chosen: int) -> str:
    """Per layer: what it computes and communicates, and what of that is exposed."""
    if not any(v.length("layers") for v in study.variants):
        return section("layers", "Layers", note("This study has no layers (a collective on its own)."))
    order = ["params", "gradient_bytes", *_LAYER_TIMES, "compute_ps", "collectives", "comm_bytes", *_LAYER_WAITS]
    names = [*order, "exposed_ps"]
    is_time = {name: facts.column("layers", name).unit == facts.PICOSECONDS for name in names}

    def numbers(v: Variant, n: str) -> list[float | None]:
        values = v.numbers("layers", n)
        return [v.per_iteration(x) for x in values] if n in _LAYER_SUMS else values

    whole = {n: [x for v in study.variants for x in numbers(v, n)] for n in names}
    scales: dict[str, Scale] = {
        "params": count_scale(whole["params"]),
        "gradient_bytes": byte_scale(whole["gradient_bytes"]),
        "comm_bytes": byte_scale(whole["comm_bytes"]),
        "collectives": Scale("", 1.0, 0 if all(x is None or x == int(x) for x in whole["collectives"]) else 1),
        "exposed_ps": time_scale(seconds(x) for x in whole["exposed_ps"]),
    }
    busy = [*_LAYER_TIMES, "compute_ps"]
    compute = time_scale(seconds(x) for key in busy for x in whole[key])
    waits = time_scale(seconds(x) for key in _LAYER_WAITS for x in whole[key])
    scales |= dict.fromkeys(busy, compute) | dict.fromkeys(_LAYER_WAITS, waits)
    columns = [
        declared.of_table("layers", "index", title="#"),
        declared.of_table("layers", "layer"),
        *(declared.of_table("layers", n, scales[n].unit, PER_ITERATION if n in _LAYER_SUMS else "") for n in order),
        replace(declared.of_table("layers", "exposed_ps", scales["exposed_ps"].unit, PER_ITERATION), width=11),
    ]
    limit = _row_limit(study)

    def panel(i: int) -> str:
        v = study.variants[i]
        count = v.length("layers")
        if not count:
            return note(f"{v.name} has no layers.")
        data = {n: numbers(v, n) for n in names}
        index, labels = v.numbers("layers", "index"), v.column("layers", "layer")
        longest = max(x or 0.0 for x in data["exposed_ps"])
        weights = [(data["exposed_ps"][r] or 0.0, data["comm_bytes"][r] or 0.0) for r in range(count)]
        kept = _largest(range(count), weights, limit)

        def cell(n: str, value: float | None) -> str:
            return scales[n].text(seconds(value) if is_time[n] else value)

        rows: list[Row] = []
        for r in kept:
            position = index[r]
            exposed = data["exposed_ps"][r]
            rows.append(
                [
                    str(r if position is None else int(position)),
                    str(labels[r]),
                    *(cell(n, data[n][r]) for n in order),
                    Cell(
                        cell("exposed_ps", exposed),
                        bar=(exposed or 0.0) / longest if longest else 0.0,
                    ),
                ]
            )
        sums = {n: sum(x or 0.0 for x in data[n]) for n in names}
        foot = ["", f"all {count}"]
        foot += ["" if n in _LAYER_WAITS or not any_known(data[n]) else cell(n, sums[n]) for n in order]
        foot.append(cell("exposed_ps", sums["exposed_ps"]))
        return _per_iteration(study, v) + _cut(len(kept), count, "layers") + table(f"layers-{i}", columns, rows, foot)

    return section("layers", "Layers", tabs("layers", variant_labels(study), chosen, panel))


def any_known(values: Sequence[float | None]) -> bool:
    """Whether there is a sum of values: those of documents of old may lack all."""
    return any(value is not None for value in values)


def _per_iteration(study: Study, v: Variant) -> str:
    """What the columns are of, and what the headline says of their sums, in its own digits."""
    scale = summary_scale(study)
    compute, exposed = (scale.label(v.per_iteration(x)) for x in (v.compute_s, v.exposed_s))
    number = "the only iteration" if v.iterations == 1 else f"{v.iterations} iterations"
    return hint(
        f"All per iteration, means of {number}: {compute} of compute and {exposed} exposed, as in the headline. Times "
        "of passes are those of an iteration with all passes and nothing beside it; compute is what the run took."
    )


def _cut(kept: int, count: int, what: str) -> str:
    if kept == count:
        return ""
    return hint(
        f"{kept:,} of {count:,} {what}: those with the most exposed time, then the largest. "
        "The tables of the run hold all."
    )


def links_section(study: Study, figures: Charts, chosen: int) -> str:
    """Bytes and busy share per dimension, and every link in a heat map."""
    if not any(v.length("links") for v in study.variants):
        return section("links", "Links", note("No variant recorded its links."))
    body = "<h3>By class</h3>" + hint(
        "Bars: mean over the links of a dimension, or of a class of links; whiskers: least and most."
    )
    body += chart(
        figures,
        "chart-links",
        charts.link_bars(study),
        "No byte crossed a link.",
        "Busy share and bytes of a link, by class and variant",
    )
    body += link_table(study)
    most = charts_heat.highest(study)

    def panel(i: int) -> str:
        v = study.variants[i]
        what = f"of {v.name}, coloured by how busy it was or by what happened there"
        parts = chart(
            figures,
            f"chart-heat-{i}",
            charts_heat.heat(v, most),
            f"No link of {v.name} was ever busy.",
            f"Every directed link {what}",
        )
        fabric = charts_fabric.drawn(v, most)
        if fabric is not None:
            parts += chart(figures, f"chart-fabric-{i}", fabric, "", f"The fabric, with every directed link {what}")
        return parts

    said = "Share of the run that a link was busy; one scale for all variants."
    if any(v.link_demand is not None for v in study.variants):
        said += " The analytical backend ignores contention: for its links this is the demand, which may exceed 100 %."
    if any(v.copies for v in study.variants):
        said += " NPUs that are alike were simulated once, so their links are shown once."
    if len(most) > 1:
        said += " Or what happened at the link, in all: frames dropped or lost, frames marked, and pauses."
    body += "<h3>Every directed link</h3>" + hint(said)
    shown = " ".join(f"chart-{kind}-{i}" for i in range(len(study.variants)) for kind in ("heat", "fabric"))
    body += choice(shown, "Colour", [(name, name) for name in most])
    body += tabs("links", variant_labels(study), chosen, panel)
    return section("links", "Links", body)


def _of_links(name: str, what: str, unit: str, how: str = "") -> Column:
    """The heading for the least, the median or the most of the links of a class."""
    title = f"{facts.column('links', name).title}, {what}"
    return declared.of_table("links", name, unit, f"{how} The {what} of the class.".lstrip(), title=title)


def link_table(study: Study) -> str:
    """Distribution over the links of each class."""
    groups = [(v, d, g) for v in study.variants for d, g in v.link_loads.items()]
    scale = byte_scale(max(x.size for x in g) for _, _, g in groups)
    columns = [
        Column("variant", numeric=False),
        Column("class", numeric=False),
        Column("links"),
        *(_of_links("bytes", what, scale.unit) for what in ("least", "median", "most")),
        *(_of_links("busy_ps", what, "%", "Share of the run.") for what in ("least", "median", "most")),
    ]

    def spread(values: list[tuple[float, int]]) -> tuple[float, float, float]:
        values = sorted(values)
        left = sum(copies for _, copies in values) // 2
        for value, copies in values:
            if left < copies:
                return values[0][0], value, values[-1][0]
            left -= copies
        return values[0][0], values[-1][0], values[-1][0]

    rows = [
        [
            v.name,
            v.link_class(dim),
            f"{sum(x.copies for x in g):,}",
            *(scale.text(x) for x in spread([(x.size, x.copies) for x in g])),
            *(percent(x).removesuffix(" %") for x in spread([(x.busy or 0.0, x.copies) for x in g])),
        ]
        for v, dim, g in groups
    ]
    return table("links", columns, rows)


def collectives_section(study: Study, chosen: int) -> str:
    """Every collective with its times, in the form of nccl-tests."""
    if not any(v.length("collectives") for v in study.variants):
        return section("collectives", "Collectives", note("No collective was issued."))
    columns_ps = ("issued_ps", "started_ps", "completed_ps")
    run = time_scale(seconds(x) for v in study.variants for c in columns_ps for x in v.numbers("collectives", c))
    latency = time_scale(x for v in study.variants for x in _latencies(v))
    exposed = time_scale(seconds(x) for v in study.variants for x in v.numbers("collectives", "exposed_ps"))
    sizes = byte_scale(x for v in study.variants for x in v.numbers("collectives", "bytes"))
    rates = rate_scale(x for v in study.variants for x in _rates(v))
    columns = [
        *(declared.of_table("collectives", name) for name in ("id", "layer", "pass", "iteration", "kind")),
        declared.of_table("collectives", "bytes", sizes.unit, title="size"),
        declared.of_table("collectives", "chunks"),
        *(declared.of_table("collectives", name, run.unit) for name in columns_ps),
        Column("raw latency", latency.unit, hint="From issue to completion"),
        Column("algbw", rates.unit, hint="Size divided by raw latency, queueing included"),
        declared.of_table("collectives", "exposed_ps", exposed.unit),
    ]
    limit = _row_limit(study)

    def panel(i: int) -> str:
        v = study.variants[i]
        rows = v.rows("collectives")
        if not rows:
            return note(f"{v.name} issued no collective.")
        latencies, algbw = _latencies(v), _rates(v)
        weights = [(number(r.get("exposed_ps")) or 0.0, lat or 0.0) for r, lat in zip(rows, latencies, strict=True)]
        kept = _largest(range(len(rows)), weights, limit)
        body: list[Row] = []
        for k in kept:
            r = rows[k]
            finished = latencies[k] is not None
            started = number(r.get("started_ps")) is not None and (finished or bool(r.get("started_ps")))
            body.append(
                [
                    _integer(r.get("id"), k),
                    str(r.get("layer", "")),
                    words(str(r.get("pass", ""))),
                    _integer(r.get("iteration"), 0),
                    words(str(r.get("kind", ""))),
                    sizes.text(number(r.get("bytes"))),
                    _integer(r.get("chunks"), 0),
                    run.text(seconds(r.get("issued_ps"))),
                    run.text(seconds(r.get("started_ps"))) if started else "waiting",
                    run.text(seconds(r.get("completed_ps"))) if finished else "in flight" if started else "",
                    latency.text(latencies[k]),
                    rates.text(algbw[k]),
                    exposed.text(seconds(r.get("exposed_ps"))),
                ]
            )
        total = sum(number(r.get("bytes")) or 0.0 for r in rows)
        unfinished = sum(1 for x in latencies if x is None)
        text = f"{len(rows):,} collectives, {size(total)} in all."
        if unfinished:
            text += f" {unfinished:,} were still in flight when the run ended; they are not exposed."
        return hint(text) + _cut(len(kept), len(rows), "collectives") + table(f"collectives-{i}", columns, body)

    return section("collectives", "Collectives", tabs("collectives", variant_labels(study), chosen, panel))


def _integer(value: object, default: int) -> str:
    found = number(value)
    return str(default if found is None else int(found))


def _latencies(v: Variant) -> list[float | None]:
    """Raw latency of each collective; nothing for those that never completed."""
    pairs = zip(v.numbers("collectives", "issued_ps"), v.numbers("collectives", "completed_ps"), strict=True)
    return [seconds(done - issued) if done and issued is not None else None for issued, done in pairs]


def _rates(v: Variant) -> list[float | None]:
    """Size over raw latency."""
    return [ratio(b, t) for b, t in zip(v.numbers("collectives", "bytes"), _latencies(v), strict=True)]
