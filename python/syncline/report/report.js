"use strict";
(() => {
  const root = document.documentElement;
  let figures = {};
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const drawn = new Set();
  const chosen = {};
  const PRINT_WIDTH_PX = 690;

  // A text that was compressed.
  async function unpacked(id) {
    const packed = Uint8Array.from(atob(document.getElementById(id).textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).text();
  }

  // The charts and what draws them.
  async function unpack() {
    if (!document.getElementById("charts").textContent) return;
    try {
      const [data, program] = await Promise.all([unpacked("charts"), unpacked("plotly")]);
      const script = document.createElement("script");
      script.textContent = program;
      document.head.append(script);
      figures = JSON.parse(data);
    } catch (error) {
      for (const place of document.querySelectorAll(".chart")) {
        place.textContent = "This chart could not be unpacked: it needs a browser of 2023 or later.";
      }
      console.error(error);
    }
  }

  const css = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();

  // A colour of the scale of heat, whose ends are 0 and 1, as parts of red, green and blue.
  function parts(share) {
    const [from, to] = share < 0.5 ? ["heat0", "heat1"] : ["heat1", "heat2"];
    const part = (colour, i) => parseInt(css(colour).slice(1 + 2 * i, 3 + 2 * i), 16);
    const mixed = (i) => Math.round(part(from, i) + (part(to, i) - part(from, i)) * (2 * share - (share < 0.5 ? 0 : 1)));
    return [0, 1, 2].map(mixed);
  }

  // Such a colour ("@heat:0.25").
  const heat = (share) => `rgb(${parts(share).join(", ")})`;

  // Black or white, whichever is easier to read upon such a colour: black where the colour's luminance (WCAG 2) is above
  // that at which both have the same contrast, of 4.58.
  function onHeat(share) {
    const linear = (part) => (part <= 10 ? part / 3294.6 : ((part / 255 + 0.055) / 1.055) ** 2.4);
    const [red, green, blue] = parts(share).map(linear);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#000000" : "#ffffff";
  }

  // Colours are tokens such as "@compute". Only keys that hold colours are read: names of users may look like tokens.
  const COLOUR_KEYS = new Set(["color", "fillcolor"]);
  function themed(value, key) {
    if (Array.isArray(value)) return value.map((v) => (v && typeof v === "object" ? themed(v, key) : v));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, themed(v, k)]));
    }
    if (typeof value !== "string" || value[0] !== "@") return value;
    if (COLOUR_KEYS.has(key)) return value.startsWith("@heat:") ? heat(parseFloat(value.slice(6))) : css(value.slice(1));
    if (key === "colorscale") return [[0, css("heat0")], [0.5, css("heat1")], [1, css("heat2")]];
    return value;
  }

  function themedLayout(layout) {
    const font = { family: getComputedStyle(document.body).fontFamily, size: 12, color: css("text") };
    const axis = {
      gridcolor: css("line"), zerolinecolor: css("line-strong"), linecolor: css("line-strong"),
      automargin: true, ticklabelstandoff: 5, title: { standoff: 8, font: { size: 12, color: css("muted") } },
    };
    const full = {
      autosize: true, font, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", dragmode: "zoom",
      hoverlabel: { bgcolor: css("raised"), bordercolor: css("line-strong"), font: { ...font } },
      ...themed(layout, "layout"),
    };
    full.template = { layout: { xaxis: axis, yaxis: axis } };
    return full;
  }

  const CONFIG = {
    responsive: true, displaylogo: false, displayModeBar: false, showTips: false, doubleClick: "reset",
    scrollZoom: false,
  };

  function traces(id) {
    const option = chosen[id];
    return themed(figures[id].data, "data").map((trace) => {
      if (option === undefined || !trace.meta || !trace.meta.option) return trace;
      return { ...trace, visible: trace.meta.option === option, showlegend: trace.meta.option === option && trace.meta.explains };
    });
  }

  // The numbers upon cells: plotly's own grey is hard to read upon the colours in the middle of a scale.
  function ink(place) {
    const map = place.data.find((trace) => trace.type === "heatmap" && trace.texttemplate);
    for (const text of map ? place.querySelectorAll(".heatmap-label text") : []) {
      const cell = text.__data__; // what plotly draws, kept there by its d3
      if (cell) text.style.fill = onHeat((cell.z - map.zmin) / (map.zmax - map.zmin));
    }
  }

  async function draw(id) {
    const place = document.getElementById(id);
    if (!place || place.offsetParent === null) return;
    try {
      const first = !place.data;
      await Plotly.react(place, traces(id), themedLayout(figures[id].layout), CONFIG);
      ink(place);
      if (first) place.on("plotly_afterplot", () => ink(place));
      place.style.minHeight = "";
      drawn.add(id);
    } catch (error) {
      place.textContent = "This chart could not be drawn: " + error.message;
      console.error(error);
    }
  }

  const drawAll = () => Promise.all(Object.keys(figures).map(draw));
  const drawMissing = () => Promise.all(Object.keys(figures).filter((id) => !drawn.has(id)).map(draw));

  // One choice of variant for all sections; a section that lacks the variant keeps its own.
  function choose(variant) {
    for (const tabbed of document.querySelectorAll(".tabbed")) {
      if (!tabbed.querySelector(`.panel[data-variant="${variant}"]`)) continue;
      for (const panel of tabbed.querySelectorAll(".panel")) panel.classList.toggle("on", panel.dataset.variant === variant);
      for (const button of tabbed.querySelectorAll(".tabs button")) {
        button.setAttribute("aria-pressed", String(button.dataset.variant === variant));
      }
    }
    return drawMissing();
  }

  for (const button of document.querySelectorAll(".tabbed .tabs button")) {
    button.addEventListener("click", () => {
      const top = button.getBoundingClientRect().top;
      choose(button.dataset.variant).then(() => window.scrollBy(0, button.getBoundingClientRect().top - top));
    });
  }

  // What charts show of several things; a choice may be that of the charts of all variants.
  for (const group of document.querySelectorAll("[data-charts]")) {
    const buttons = group.querySelectorAll("button");
    for (const button of buttons) {
      button.addEventListener("click", () => {
        for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
        for (const id of group.dataset.charts.split(" ").filter((id) => figures[id])) {
          chosen[id] = button.dataset.option;
          drawn.delete(id);
          draw(id);
        }
      });
    }
  }

  // Sorting: numbers are read from the text as shown, absent ones (a dash) stay at the end.
  const collator = new Intl.Collator("en", { numeric: true });
  function valueOf(row, column, numeric) {
    const cell = row.cells[column];
    const text = [...cell.childNodes].filter((n) => n.nodeType === Node.TEXT_NODE).map((n) => n.textContent).join("");
    if (!numeric) return text;
    const value = parseFloat(text.replace(/[,<]/g, ""));
    return Number.isNaN(value) ? null : value;
  }
  function sort(table, header, column) {
    const numeric = header.classList.contains("n");
    const before = header.getAttribute("aria-sort");
    const up = before ? before === "descending" : !numeric;
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", up ? "ascending" : "descending");
    const keyed = [...table.tBodies[0].rows].map((row, i) => ({ row, i, key: valueOf(row, column, numeric) }));
    keyed.sort((a, b) => {
      if (a.key === null || b.key === null) return (a.key === null) - (b.key === null) || a.i - b.i;
      const order = numeric ? a.key - b.key : collator.compare(a.key, b.key);
      return (up ? order : -order) || a.i - b.i;
    });
    table.tBodies[0].append(...keyed.map((k) => k.row));
  }
  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((header, column) => {
      header.querySelector("button").addEventListener("click", () => sort(table, header, column));
    });
  }

  for (const button of document.querySelectorAll(".copy")) {
    button.addEventListener("click", () => {
      const code = button.parentElement.querySelector("code");
      getSelection().selectAllChildren(code);
      document.execCommand("copy");
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }

  dark.addEventListener("change", drawAll);
  // Paper is white and narrow: the light theme, and charts as wide as a page.
  window.addEventListener("beforeprint", () => {
    root.classList.add("printing");
    for (const id of drawn) {
      const place = document.getElementById(id);
      if (place.offsetParent === null) continue;
      Plotly.react(place, traces(id), { ...themedLayout(figures[id].layout), autosize: false, width: PRINT_WIDTH_PX }, CONFIG);
    }
  });
  window.addEventListener("afterprint", () => {
    root.classList.remove("printing");
    drawAll();
  });

  unpack().then(drawAll).then(() => { root.dataset.ready = String(drawn.size); });
})();
