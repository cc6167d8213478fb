/* Draws the charts, which pages hold as JSON, by uPlot, and makes lists searchable. Pages are whole without it. */
"use strict";
(() => {
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const figure = (value) => (value == null ? "" : typeof value === "number" ? value.toLocaleString("en", { maximumSignificantDigits: 7 }) : value);
  const isoDay = (seconds) => new Date(seconds * 1000).toISOString().slice(0, 10);

  const COLOURS = 9;
  /* Markers as corners of polygons and stars: how many, turned by how many degrees, how deep; first a circle. */
  const MARKERS = [[48, 0, 1], [4, 45, 1], [3, 0, 1], [4, 0, 1], [3, 180, 1], [5, 0, 0.4], [4, 0, 0.3], [4, 45, 0.3], [3, 90, 1], [3, 270, 1], [5, 0, 1], [6, 0, 0.4], [6, 0, 1], [3, 0, 0.2], [8, 0, 0.5], [3, 180, 0.2]];
  /** The corners of a marker around 0, as far as 1 from it. No number has the marker of another. */
  function corners(number) {
    const [count, turned, depth] = MARKERS[number] || [number - 7, 0, 0.6];
    return Array.from({ length: 2 * count }, (_, i) => {
      const angle = (Math.PI * i) / count + (Math.PI * turned) / 180, far = i % 2 ? (depth === 1 ? Math.cos(Math.PI / count) : depth) : 1;
      return [far * Math.sin(angle), -far * Math.cos(angle)];
    });
  }
  const sorted = (numbers) => [...new Set(numbers)].sort((a, b) => a - b);
  const digits = (value, count) => +value.toPrecision(count);

  /** Charts of which a page holds the figures alone. */
  const kinds = {
    samples: ({ e: [first, step], v: [before, now] }) => ({
      h: 190,
      x: { l: "time, µs", k: "num", v: now.map((_, place) => digits(first + place * step, 7)) },
      y: { l: "% of samples", k: "num", z: 1 },
      s: [{ l: "old", k: "bar", c: 0, v: before }, { l: "new", k: "bar", c: 1, v: now }].filter((side) => side.v.length),
    }),
    /* The interval in one row, the noise floor in the other. */
    change: ({ v }) => {
      const points = v.map((x, place) => ({ x, row: place < 3 ? 1 : 0 })).sort((a, b) => a.x - b.x);
      const row = (wanted) => points.map((point) => (point.row === wanted ? wanted : null));
      return {
        h: 140,
        x: { l: "change of the time, %", k: "num", v: points.map((point) => point.x) },
        y: { k: "rows" },
        s: [{ l: "noise floor", k: "line", c: "grey", w: 12, v: row(0) }, { l: "change, 95 % interval", k: "both", c: 1, w: 3, v: row(1) }],
      };
    },
    history: ({ u: [unit, least], v, levels = [] }) => {
      const level = v.map(() => null);
      for (const [first, last, value] of levels) level.fill(value, first, last + 1);
      const medians = v.map((value) => (value === null ? null : digits((value + least) * unit, 4)));
      const series = [{ l: "median", k: "dot", c: 0, v: medians }, { l: "level", k: "step", c: 1, w: 2, v: level }];
      return { h: 190, x: { k: "nights" }, y: { l: "median, µs", k: "num" }, s: series.slice(0, levels.length ? 2 : 1) };
    },
    roofline: ({ roof: [memory, most], u, v, h, c, n }) => {
      const own = Object.values(v).flat().map(([x]) => x);
      const ridge = digits(most / memory, 4);
      const xs = sorted([...own, ridge, Math.min(ridge, ...own) / 3, Math.max(ridge, ...own) * 3]);
      const points = Object.entries(v).map(([label, each], place) => {
        const at = new Map(each);
        return { l: label, k: "dot", c: c ? c[place] : place, w: 8, v: xs.map((x) => at.get(x) ?? null) };
      });
      const line = { l: "roof", k: "line", c: "grey", w: 2, v: xs.map((x) => digits(Math.min(most, x * memory), 4)) };
      return { h: h || 190, n, x: { l: "operations per byte", k: "log", v: xs }, y: { l: u, k: "log" }, s: [line, ...points] };
    },
  };

  /** The values along x: those of the chart, the nights' times, or the places of its categories. */
  function along({ x }) {
    if (x.k === "nights") return NIGHTS.t;
    return x.k === "cat" ? x.v.map((_, place) => place) : x.v;
  }

  /** The colour of a series: one that is named, or of more series than these a hue of its own, each third darker. */
  function colourOf(series, { s, n }) {
    const count = n || Math.max(...s.map((other) => (other.c === "grey" ? 0 : other.c + 1)));
    if (series.c === "grey" || count <= COLOURS) return colour(series.c === "grey" ? "--grey" : `--c${series.c}`);
    return `hsl(${Math.round((360 * series.c) / count)} 80% calc(${colour("--tone-l")} + ${((series.c % 3) - 1) * 12}%))`;
  }

  /** Draws the marker of a series at each of its points. */
  const marks = (number) => (plot, at, first, last) => {
    const path = new Path2D(), size = (plot.series[at].points.size / 2) * devicePixelRatio;
    for (let i = first; i <= last; i++) {
      if (plot.data[at][i] == null) continue;
      const [x, y] = [plot.valToPos(plot.data[0][i], "x", true), plot.valToPos(plot.data[at][i], "y", true)];
      corners(number).forEach(([right, down], corner) => path[corner ? "lineTo" : "moveTo"](x + right * size, y + down * size));
      path.closePath();
    }
    return { fill: path, stroke: path, clip: null, flags: 3 };
  };

  function drawn(series, spec) {
    const bars = spec.s.filter((other) => other.k === "bar").length;
    const stroke = colourOf(series, spec);
    const made = { label: series.l, stroke, width: series.w && series.k !== "dot" ? series.w : 1.5, spanGaps: true };
    made.value = (_, value) => figure(value);
    made.points = { show: series.k === "dot" || series.k === "both", size: series.w && series.k === "dot" ? series.w : 8, width: 0, fill: stroke };
    if (typeof series.c === "number") made.points.paths = marks(series.c);
    if (series.k === "dot") made.paths = () => null;
    if (series.k === "step") made.paths = uPlot.paths.stepped({ align: 1 });
    if (series.k === "bar") {
      made.paths = uPlot.paths.bars({ size: [0.94, 60] });
      made.width = series.c === 0 ? 0 : 1.5;
      made.fill = stroke + (series.c === 0 ? (bars > 1 ? "66" : "99") : "33");
    }
    return made;
  }

  function axes(spec, narrow) {
    const look = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif" };
    const x = { ...look, label: spec.x.l, labelSize: spec.x.l ? 22 : 0, size: 28 };
    if (spec.x.k === "cat") {
      const longest = Math.max(...spec.x.v.map((name) => name.length));
      const every = Math.ceil(spec.x.v.length / (narrow ? 8 : 16));
      x.splits = () => along(spec);
      x.values = (_, places) => places.map((place) => (place % every ? "" : spec.x.v[place]));
      x.rotate = 35;
      x.size = 24 + 4.4 * longest;
    }
    if (spec.x.k === "nights") {
      Object.assign(x, { label: "night", labelSize: 22 });
      const hours = NIGHTS.t.at(-1) - NIGHTS.t[0] < 5 * 86400;
      x.values = (_, times) => times.map((time) => new Date(time * 1000).toISOString().replace("T", " ").slice(5, hours ? 16 : 10));
      x.space = hours ? 95 : 60;
    }
    const y = { ...look, label: spec.y.l, labelSize: spec.y.l ? 22 : 0 };
    y.size = (_, texts) => 16 + 7 * Math.max(4, ...(texts || []).map((text) => (text || "").length));
    y.values = (_, splits) => splits.map((value) => figure(value));
    /* Powers of ten have their numbers, and 2 and 5 times these where they are few: all would lie on each other. */
    const tens = (u, splits) => {
      const known = splits.filter((value) => value !== null), few = known.at(-1) < 100 * known[0];
      const first = (value) => +(value / 10 ** Math.floor(Math.log10(value) + 1e-9)).toPrecision(3);
      return splits.map((value) => (value !== null && (few ? [1, 2, 5] : [1]).includes(first(value)) ? value : null));
    };
    if (spec.y.k === "log") y.filter = tens;
    if (spec.x.k === "log") { x.filter = tens; x.values = (_, splits) => splits.map((value) => figure(value)); }
    if (spec.y.k === "rows") { y.show = false; }
    return [x, y];
  }

  function scales(spec) {
    const x = { time: spec.x.k === "nights", distr: spec.x.k === "log" ? 3 : 1 };
    if (spec.x.k === "cat") x.range = [-0.3, spec.x.v.length - 0.7];
    if (spec.x.k === "nights") x.range = (_, least, most) => { const room = Math.max(0.03 * (most - least), 3600); return [least - room, most + room]; };
    const bar = spec.s.some((series) => series.k === "bar") && spec.x.v.length > 1 ? 0.6 * (spec.x.v[1] - spec.x.v[0]) : 0;
    if (bar) x.range = (_, least, most) => [least - bar, most + bar];
    if (spec.y.k === "rows") x.range = (_, least, most) => [least - 0.08 * (most - least), most + 0.08 * (most - least)];
    const y = { distr: spec.y.k === "log" ? 3 : 1 };
    const decade = (value, round) => 10 ** round(Math.log10(value));
    if (spec.y.k === "log") y.range = (_, least, most) => [decade(least / 1.2, Math.floor), decade(most * 1.2, Math.ceil)];
    if (spec.y.k === "rows") y.range = [-0.7, 1.7];
    if (spec.y.z) y.range = (_, least, most) => [0, 1.06 * most || 1];
    return { x, y };
  }

  /** Gives the entries of the legend the colours and markers of their series. */
  const legend = (spec) => (plot) => plot.root.querySelectorAll(".u-series:not(:first-child) .u-marker").forEach((mark, at) => {
    const series = spec.s[at], percent = (value) => `${50 + 50 * value}%`;
    Object.assign(mark.style, { background: plot.series[at + 1].stroke(), border: 0 });
    if (series.k === "line" || series.k === "step") mark.style.height = "2px";
    else if (series.k !== "bar" && typeof series.c === "number") mark.style.clipPath = `polygon(${corners(series.c).map(([x, y]) => `${percent(x)} ${percent(y)}`)})`;
  });

  function draw(place, spec) {
    place.replaceChildren();
    const xs = along(spec);
    const named = spec.x.k === "cat" ? (_, at) => (at == null ? "" : spec.x.v[at]) : (_, at) => figure(at);
    const options = {
      width: place.clientWidth,
      height: spec.h,
      scales: scales(spec),
      axes: axes(spec, place.clientWidth < 500),
      series: [{ label: spec.x.l || "night", value: named }, ...spec.s.map((series) => drawn(series, spec))],
      focus: { alpha: 0.2 },
      hooks: { ready: [legend(spec)] },
      cursor: { focus: { prox: spec.s.length > 3 ? 24 : -1 }, drag: { x: spec.x.k === "nights" || spec.x.k === "num", y: false }, points: { size: 8 } },
      padding: [8, 24, 0, spec.y.k === "rows" ? 24 : spec.x.k === "cat" ? 16 : 0],
    };
    return new uPlot(options, [xs, ...spec.s.map((series) => series.v)], place);
  }

  /** A table of the chart's figures, made when it is opened. */
  function figuresOf(spec, title) {
    const figures = document.createElement("details");
    figures.innerHTML = "<summary>Figures</summary>";
    figures.addEventListener("toggle", () => {
      if (!figures.open || figures.children.length > 1) return;
      const xs = along(spec);
      const columns = spec.s.map((series) => series.v);
      const table = document.createElement("table");
      const row = (parent, kind, texts) => {
        const made = parent.insertRow();
        texts.forEach((text) => { made.appendChild(document.createElement(kind)).textContent = figure(text); });
        return made;
      };
      const head = row(table.createTHead(), "th", [spec.x.l || "night", ...spec.s.map((series) => series.l)]);
      for (const cell of head.cells) cell.scope = "col";
      const body = table.createTBody();
      xs.forEach((x, at) => {
        const name = spec.x.k === "nights" ? `${isoDay(x)} ${NIGHTS.c[at]}` : spec.x.k === "cat" ? spec.x.v[at] : x;
        row(body, "td", [name, ...columns.map((column) => column[at])]);
      });
      const scroll = document.createElement("div");
      scroll.className = "scroll";
      scroll.tabIndex = 0;
      scroll.setAttribute("role", "region");
      scroll.setAttribute("aria-label", `${title}: figures`);
      scroll.append(table);
      figures.append(scroll);
    });
    return figures;
  }

  function charts() {
    const made = [...document.querySelectorAll("figure")].map((each) => {
      const place = each.querySelector(".chart");
      const held = JSON.parse(each.querySelector("script").textContent);
      const spec = held.k ? kinds[held.k](held) : held;
      each.append(figuresOf(spec, each.querySelector("h2, h3").textContent));
      return { place, spec, plot: draw(place, spec) };
    });
    const again = () => made.forEach((each) => { each.plot.destroy(); each.plot = draw(each.place, each.spec); });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
    let width = innerWidth;
    addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; again(); } });
  }

  /** Search box and choices above a list; what is chosen stands in the address, so that it can be linked to. */
  function filter(form) {
    const table = document.getElementById(form.dataset.for);
    const rows = [...table.tBodies[0].rows].map((row) => ({ row, text: row.textContent.toLowerCase(), id: row.cells[0].textContent, verdict: row.cells[1].textContent }));
    /* An id begins with its family and ends with its type. */
    const fitting = { q: () => true, verdict: (row, value) => row.verdict === value, family: (row, value) => row.id.startsWith(`${value}-`), type: (row, value) => row.id.endsWith(`-${value}`) };
    const output = form.querySelector("output");
    const what = table.dataset.what || "cases";
    const apply = () => {
      const chosen = Object.fromEntries([...new FormData(form)].filter(([, value]) => value));
      const words = (chosen.q || "").toLowerCase().split(/\s+/).filter(Boolean);
      let count = 0;
      for (const each of rows) {
        const fits = words.every((word) => each.text.includes(word)) && Object.entries(chosen).every(([name, value]) => fitting[name](each, value));
        each.row.hidden = !fits;
        count += fits;
      }
      output.textContent = count === rows.length ? `${figure(count)} ${what}` : `${figure(count)} of ${figure(rows.length)} ${what}`;
      if (form.dataset.for === "cases") history.replaceState(null, "", `#${new URLSearchParams(chosen)}`);
    };
    const read = () => {
      for (const [name, value] of new URLSearchParams(location.hash.slice(1))) if (form.elements[name]) form.elements[name].value = value;
      apply();
    };
    form.addEventListener("input", apply);
    form.addEventListener("submit", (event) => event.preventDefault());
    if (form.dataset.for === "cases") { addEventListener("hashchange", read); read(); }
    sortable(table);
  }

  function sortable(table) {
    const number = (text) => parseFloat(text.replace("−", "-").replaceAll(",", ""));
    [...table.tHead.rows[0].cells].forEach((head, at) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "descending" || (at < 2 && !head.hasAttribute("aria-sort"));
        for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "ascending" : "descending");
        const key = (row) => row.cells[at].textContent.trim();
        const rows = [...table.tBodies[0].rows].sort((a, b) => {
          const [one, other] = [number(key(a)), number(key(b))];
          if (at < 2 || (isNaN(one) && isNaN(other))) return (down ? 1 : -1) * key(a).localeCompare(key(b));
          if (isNaN(one) || isNaN(other)) return isNaN(one) - isNaN(other);
          return (down ? 1 : -1) * (one - other);
        });
        table.tBodies[0].append(...rows);
      });
    });
  }

  if (window.uPlot) charts();
  document.querySelectorAll("form.filter").forEach(filter);
})();
