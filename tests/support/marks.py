"""Charts of a page in a browser: that each trace has marks that can be seen."""

from __future__ import annotations

from support.browser import Page

# Per trace of a chart that is meant to be seen: how many marks of a size that can be seen it has.
MARKS = """
const area = (e) => {
  const box = e.getBoundingClientRect();
  return box.width > 0.5 && box.height > 0.5;
};
const length = (e) => e.getTotalLength() > 2;
const kinds = {
  bar: (p) => p.querySelectorAll(".barlayer .trace"),
  scatter: (p) => p.querySelectorAll(".scatterlayer .trace"),
  heatmap: (p) => p.querySelectorAll(".hm"),
};
const shapes = { bar: ".point path", scatter: "path.js-line, path.point", heatmap: "image" };
const sized = { bar: area, scatter: length, heatmap: area };
const found = {};
for (const place of document.querySelectorAll(".chart")) {
  if (place.offsetParent === null) continue;
  // What the page asked for, not what plotly made of it: it hides traces without data.
  const data = (place.data || []).filter((t) => t.visible !== false);
  const groups = {};
  for (const t of data) (groups[t.type] = groups[t.type] || []).push(t);
  const marks = [];
  for (const [type, wanted] of Object.entries(groups)) {
    const drawn = [...kinds[type](place)];
    wanted.forEach((_, i) => {
      marks.push(drawn[i] ? [...drawn[i].querySelectorAll(shapes[type])].filter(sized[type]).length : 0);
    });
  }
  found[place.id] = marks;
}
return found;
"""


def check_charts(page: Page, expected: set[str]) -> None:
    """Every expected chart is there, and every trace of every visible chart has marks."""
    marks = page.run(MARKS)
    missing = expected - set(marks)
    assert not missing, f"charts that are not on the page: {sorted(missing)}"
    for name, counts in marks.items():
        assert counts, f"{name} has no trace"
        assert all(counts), f"{name} has traces without marks: {counts}"
