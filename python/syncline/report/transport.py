"""The section of networks with a transport: what it did, when, and how long messages took."""

from __future__ import annotations

from syncline.report import charts_transport as charts
from syncline.report import charts_watched, declared
from syncline.report.markup import Charts, Column, chart, choice, hint, section, table, tabs
from syncline.results.study import Study, mapping
from syncline.results.units import number, percent, time

COUNTS = (
    *("segments_sent", "retransmissions", "drops", "marks", "rto_events", "flows_with_rto", "fast_recoveries"),
    *("naks", "discards", "notifications", "pauses"),
    *("background_flows", "background_finished", "background_failed", "background_left_out"),
)
"""Counts of the document that the table `transport` has by the same names."""


def transport_section(study: Study, figures: Charts, chosen: int) -> str:
    """Queues, losses and timeouts; absent where no network has a transport."""
    if not charts.has_any(study):
        return ""
    body = counts_table(study)
    body += hint(
        "The longest of the queues in each window, and where frames were dropped, retransmission "
        "timers expired and switches asked for pauses. Drag to zoom in time, double-click to return."
    )
    body += chart(
        figures,
        "chart-congestion",
        charts.congestion(study),
        "Nothing waited, and nothing was lost.",
        "Longest queue over time, with drops, timeouts and pauses, one panel per variant",
    )
    body += hint(
        "The share of messages that arrived within a time of being sent, and the same over what they would take "
        "alone: without others, and without a window."
    )
    body += chart(
        figures,
        "chart-completions",
        charts.completions(study),
        "No message arrived.",
        "Cumulative distribution of completion times and slowdowns of messages",
    )
    body += watched_part(study, figures, chosen)
    return section("transport", "Queues, losses and timeouts", body)


def watched_part(study: Study, figures: Charts, chosen: int) -> str:
    """Connections over time; absent where none is watched."""
    watching = [(i, v.name) for i, v in enumerate(study.variants) if v.length(charts_watched.WATCHED)]
    if not watching:
        return ""
    body = "<h3>Watched connections</h3>" + hint(
        "What the sender knew at each acknowledgement: its window and threshold (TCP) or the rate that is set (DCQCN), "
        "what was not acknowledged, and the round trip, if one was measured. Drag to zoom in time, double-click to "
        "return."
    )
    left_out = max(charts_watched.left_out(v) for v in study.variants)
    if left_out:
        body += hint(
            f"The first {charts_watched.MOST_CONNECTIONS} connections of a variant; up to {left_out:,} more are in its "
            f"table `{charts_watched.WATCHED}`."
        )
    places = " ".join(f"chart-watched-{i}" for i, _ in watching)
    body += choice(places, "Connection", [(name, name) for name in charts_watched.offered(study)])

    def panel(i: int) -> str:
        v = study.variants[i]
        figure = charts_watched.watched(v, study)
        label = f"Window, rate and round trips of watched connections of {v.name}"
        return chart(figures, f"chart-watched-{i}", figure, f"No connection of {v.name} is watched.", label)

    return body + tabs("watched", watching, chosen, panel)


def counts_table(study: Study) -> str:
    """What the transport did, by variants."""
    networks = [mapping(v.run.get("network")) for v in study.variants]
    columns = [Column("over the whole run", numeric=False), *(Column(v.name) for v in study.variants)]
    rows = []
    for name in COUNTS:
        values = [number(network.get(name)) for network in networks]
        if any(values):
            shown = ["\u2013" if value is None else f"{value:,.0f}" for value in values]
            rows.append([declared.row_of_table("transport", name), *shown])
    for called, name in (("Median round trip", "rtt_p50_s"), ("99th percentile of round trips", "rtt_p99_s")):
        trips = [number(network.get(name)) for network in networks]
        if any(trips):
            rows.append([called, *("\u2013" if trip is None else time(trip) for trip in trips)])
    stalled = [number(network.get("rto_stalled_s")) for network in networks]
    if any(stalled):
        of = [v.total_s for v in study.variants]
        shares = [percent(s / t) if s is not None and t else "\u2013" for s, t in zip(stalled, of, strict=True)]
        rows.append(["Time in which nothing was on any link until a timeout", *shares])
    return table("transport", columns, rows)
