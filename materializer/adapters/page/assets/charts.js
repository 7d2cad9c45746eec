/* Charts of the report page, drawn by Apache ECharts. Each function returns what gives the charts back. */
"use strict";
window.materializerCharts = (() => {
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const LINES = ["#2c7a9b", "#c4631a", "#5b8c3a", "#9a4fb3", "#b03a5b", "#8a6d1f", "#3f6fd1", "#4a9c8c"];
  const MOST_EDGES = 400;  // buckets that are drawn one by one

  /** Begin a chart whose texts are drawn, never markup. */
  const begin = (zone, option) => {
    const chart = echarts.init(zone, null, { renderer: "canvas" });
    const text = { color: color("soft"), fontFamily: getComputedStyle(document.body).fontFamily };
    chart.setOption({
      animation: false, useUTC: true, textStyle: text, color: LINES, ...option,
      tooltip: { renderMode: "richText", confine: true, backgroundColor: color("card"), borderColor: color("line"), textStyle: { color: color("ink"), fontSize: 13 }, ...option.tooltip },
    });
    const watch = new ResizeObserver(() => chart.resize());
    watch.observe(zone);
    return [chart, () => { watch.disconnect(); chart.dispose(); }];
  };
  const axis = (more = {}) => ({ axisLine: { lineStyle: { color: color("line") } }, axisTick: { lineStyle: { color: color("line") } }, axisLabel: { color: color("soft"), hideOverlap: true }, splitLine: { lineStyle: { color: color("line"), opacity: 0.6 } }, nameTextStyle: { color: color("soft") }, ...more });
  const slider = (more = {}) => ({ type: "slider", height: 18, bottom: 6, borderColor: color("line"), backgroundColor: "transparent", fillerColor: `${color("accent")}33`, handleStyle: { color: color("accent"), borderColor: color("accent") }, moveHandleStyle: { color: color("accent"), opacity: 0.5 }, dataBackground: { lineStyle: { opacity: 0 }, areaStyle: { opacity: 0 } }, selectedDataBackground: { lineStyle: { opacity: 0 }, areaStyle: { opacity: 0 } }, textStyle: { color: color("soft"), fontSize: 11 }, brushSelect: false, showDetail: false, ...more });
  /** Let a button of the page, which waits for its chart, do something. */
  const button = (name, act, off = false) => {
    const found = [...document.querySelectorAll("#zooms button")].find((b) => b.textContent === name);
    if (found) { found.disabled = off; found.onclick = act; }
  };
  const legend = (more = {}) => ({ type: "scroll", top: 0, left: 0, right: 0, textStyle: { color: color("ink") }, inactiveColor: color("soft"), pageTextStyle: { color: color("soft") }, pageIconColor: color("accent"), ...more });

  // -- the time line --------------------------------------------------------------------------------------------------------

  /** The bucket that holds an instant, as [start, end]; null where buckets are not known one by one. */
  const bucketAt = (t, at) => {
    if (t.width) { const start = Math.floor((at - t.phase) / t.width) * t.width + t.phase; return [start, start + t.width]; }
    const edges = t.edges;
    if (!edges || at < edges[0] || at >= edges[edges.length - 1]) return null;
    let low = 0, high = edges.length - 1;
    while (high - low > 1) { const middle = (low + high) >> 1; if (edges[middle] <= at) low = middle; else high = middle; }
    return [edges[low], edges[low + 1]];
  };
  const edgesIn = (t, from, to) => {
    if (t.width) {
      if ((to - from) / t.width > MOST_EDGES) return [];
      const found = [];
      for (let at = Math.ceil((from - t.phase) / t.width) * t.width + t.phase; at <= to; at += t.width) found.push(at);
      return found;
    }
    const found = (t.edges ?? []).filter((e) => e >= from && e <= to);
    return found.length > MOST_EDGES ? [] : found;
  };

  const timeline = (of, zone, to) => {
    const t = of.timeline, [first, last] = t.extent, integer = t.integer, lanes = ["buckets", ...t.policies.map((p) => p.name)];
    const least = t.width ?? (t.edges && t.edges.length > 1 ? t.edges[1] - t.edges[0] : (last - first) / 1000);
    const ends = (w) => [w[0] ?? -Infinity, w[1] ?? Infinity];
    const clip = (start, end) => [Math.max(start ?? first, first), Math.min(end ?? last, last)];
    const row = (api, lane, start, end, share) => {
      const [x0, y] = api.coord([start, lane]), [x1] = api.coord([end, lane]), high = api.size([0, 1])[1] * share;
      return { x: x0, y: y - high / 2, width: Math.max(x1 - x0, 1.5), height: high };
    };
    const grid = { left: 12, right: 16, top: 30, bottom: 56, containLabel: true };
    const rect = (share) => (params, api) => {
      const s = params.coordSys, shape = row(api, api.value(0), api.value(1), api.value(2), share);
      const cut = echarts.graphic.clipRectByRect(shape, { x: s.x, y: s.y, width: s.width, height: s.height });
      return cut && { type: "rect", shape: cut, style: { fill: api.visual("color") } };
    };
    const data = t.spans.map((s) => { const [start, end] = clip(s.start, s.end); return { value: [0, start, end], itemStyle: { color: color(s.kind) }, span: s }; });
    const windows = t.policies.flatMap((p, i) => (p.window && ends(p.window)[1] > first && ends(p.window)[0] < last ? [{ value: [i + 1, ...clip(p.window[0], p.window[1])], itemStyle: { color: p.due ? color("dirty") : color("accent") }, policy: p }] : []));
    const outside = t.policies.map((p, i) => [p, i + 1]).filter(([p]) => p.window && (ends(p.window)[1] <= first || ends(p.window)[0] >= last));
    let pointer = null;
    const told = (params) => {
      const bucket = pointer === null ? null : bucketAt(t, pointer);
      if (params.data.policy) { const p = params.data.policy; return `policy ${p.name}\nwould refresh ${to.between(p.window, integer)}\nschedule ${p.schedule ?? "none"}${p.due ? ", due now" : ""}`; }
      const s = params.data.span;
      return [bucket && `bucket ${to.between(bucket, integer)}`, `${s.kind}: ${wrapped(s.why)}`, `span ${to.between([s.start, s.end], integer)}`].filter(Boolean).join("\n");
    };
    const [chart, end] = begin(zone, {
      grid, tooltip: { trigger: "item", formatter: told },
      xAxis: axis({ type: integer ? "value" : "time", min: first, max: last, splitLine: { show: false }, axisLabel: { color: color("soft"), hideOverlap: true, ...(integer ? { formatter: to.number } : {}) } }),
      yAxis: axis({ type: "category", data: lanes, inverse: true, axisTick: { show: false }, splitLine: { show: false }, axisLabel: { color: color("ink"), width: 110, overflow: "truncate" } }),
      dataZoom: [
        { type: "inside", filterMode: "none", zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false, moveOnMouseMove: true, minValueSpan: least * 2 },
        slider({ filterMode: "none", minValueSpan: least * 2 }),
      ],
      series: [
        { type: "custom", name: "states", renderItem: rect(0.62), encode: { x: [1, 2], y: 0 }, data, clip: true,
          markLine: { symbol: "none", silent: false, data: t.bounds.filter((b) => b.at >= first && b.at <= last).map((b) => ({ name: b.name, xAxis: b.at })), lineStyle: { color: color("ink"), type: "dashed", width: 1 },
            label: { formatter: (p) => p.name, color: color("ink"), position: "start", rotate: 0, distance: [0, -2] , show: false }, tooltip: { formatter: (p) => { const b = t.bounds.find((x) => x.name === p.name); return `${b.name}: ${to.when(b.at, integer)}\n${wrapped(b.why)}`; } } } },
        { type: "custom", name: "windows", renderItem: rect(0.4), encode: { x: [1, 2], y: 0 }, data: windows, clip: true },
        { type: "custom", name: "edges", silent: true, data: [], encode: { x: 0 }, renderItem: (params, api) => {
          const [x, y] = api.coord([api.value(0), 0]), high = api.size([0, 1])[1] * 0.62, s = params.coordSys;
          return x < s.x || x > s.x + s.width ? null : { type: "line", shape: { x1: x, x2: x, y1: y - high / 2, y2: y + high / 2 }, style: { stroke: color("card"), lineWidth: 1 } };
        } },
        { type: "custom", name: "outside", silent: true, data: outside.map(([p, lane]) => [ends(p.window)[0] >= last ? 1 : 0, lane]), encode: { y: 1 }, renderItem: (params, api) => {
          const s = params.coordSys, [, y] = api.coord([first, api.value(1)]), later = api.value(0) === 1, [p] = outside[params.dataIndex];
          return { type: "text", style: { text: `${later ? "" : "◂ "}${to.between(p.window, integer)}${later ? " ▸" : ""}`, x: later ? s.x + s.width - 4 : s.x + 4, y, verticalAlign: "middle", align: later ? "right" : "left", fill: color("soft"), fontSize: 11 } };
        } },
        { type: "custom", name: "bounds", silent: true, data: t.bounds.filter((b) => b.at >= first && b.at <= last).map((b, i) => ({ value: [b.at, i], name: b.name })), encode: { x: 0 }, renderItem: (params, api) => {
          const [x] = api.coord([api.value(0), 0]), s = params.coordSys;
          if (x < s.x - 1 || x > s.x + s.width + 1) return null;
          const name = t.bounds.filter((b) => b.at >= first && b.at <= last)[params.dataIndex].name, right = x > s.x + s.width - 80;
          return { type: "text", style: { text: name, x: right ? x - 4 : x + 4, y: s.y - 26 + 13 * (params.dataIndex % 2), fill: color("ink"), fontSize: 11, align: right ? "right" : "left" } };
        } },
      ],
    });
    chart.getZr().on("mousemove", (e) => { pointer = chart.convertFromPixel({ xAxisIndex: 0 }, e.offsetX); });
    const range = () => { const x = chart.getModel().getComponent("xAxis", 0).axis.scale.getExtent(); return [x[0], x[1]]; };
    const zoomed = new Set();
    let keep = 0;
    const looked = () => {
      const [from, upto] = range();
      chart.setOption({ series: [{}, {}, { data: edgesIn(t, from, upto).map((e) => [e]) }] });
      zone.dataset.from = from; zone.dataset.to = upto; zone.dataset.edges = String(edgesIn(t, from, upto).length);
      for (const each of zoomed) each(from, upto);
      clearTimeout(keep);
      const whole = from <= first && upto >= last;
      keep = setTimeout(() => to.remember({ from: whole ? null : String(Math.round(from)), to: whole ? null : String(Math.round(upto)) }), 250);
    };
    const zoom = (from, upto) => {
      const length = Math.min(Math.max(upto - from, least * 2), last - first), start = Math.min(Math.max(from, first), last - length);
      chart.dispatchAction({ type: "dataZoom", dataZoomIndex: 0, startValue: start, endValue: start + length });
      chart.dispatchAction({ type: "dataZoom", dataZoomIndex: 1, startValue: start, endValue: start + length });
    };
    chart.on("datazoom", looked);
    chart.on("click", (p) => { if (p.data?.span && pointer !== null) { const bucket = bucketAt(t, pointer); if (bucket) { to.remember({ bucket: String(bucket[0]) }); to.pick(bucket); } } });
    const around = (length) => {
      const [from, upto] = range(), dirty = t.spans.filter((s) => !["fresh", "frozen", "retired"].includes(s.kind)).at(-1);
      const middle = from > first || upto < last ? (from + upto) / 2 : Math.min(dirty?.end ?? last, last) - length / 2;
      zoom(middle - length / 2, middle + length / 2);
    };
    const DAY = 86400000, steps = integer ? [["1/10", (last - first) / 10], ["1/100", (last - first) / 100]] : [["Year", 366 * DAY], ["Month", 31 * DAY], ["Week", 7 * DAY], ["Day", DAY]];
    button("All", () => zoom(first, last));
    for (const [name, length] of steps) button(name, () => around(length), length >= last - first || length < least * 2);
    button("Buckets", () => around(least * 24), least * 24 >= last - first);
    button("Next dirty", () => {
      const wrong = t.spans.filter((s) => !["fresh", "frozen", "retired", "new"].includes(s.kind)).sort((a, b) => (a.start ?? first) - (b.start ?? first)), [from, upto] = range();
      const next = wrong.find((s) => (s.start ?? first) >= (from + upto) / 2 + least) ?? wrong[0];
      if (next) { const [start, stop] = clip(next.start, next.end), length = Math.max((stop - start) * 3, least * 24); zoom((start + stop - length) / 2, (start + stop + length) / 2); }
    }, !t.spans.some((s) => !["fresh", "frozen", "retired", "new"].includes(s.kind)));
    const keys = (e) => {
      const [from, upto] = range(), step = (upto - from) / 4, middle = (from + upto) / 2, half = (upto - from) / 2;
      const act = { ArrowLeft: () => zoom(from - step, upto - step), ArrowRight: () => zoom(from + step, upto + step), "+": () => zoom(middle - half / 2, middle + half / 2), "=": () => zoom(middle - half / 2, middle + half / 2), "-": () => zoom(middle - half * 2, middle + half * 2), Home: () => zoom(first, last),
        Enter: () => { const bucket = bucketAt(t, middle); if (bucket) { to.remember({ bucket: String(bucket[0]) }); to.pick(bucket); } } }[e.key];
      if (act && !e.ctrlKey && !e.metaKey && !e.altKey) { e.preventDefault(); act(); }
    };
    zone.addEventListener("keydown", keys);
    const from = Number(to.query.get("from") ?? NaN), upto = Number(to.query.get("to") ?? NaN), picked = Number(to.query.get("bucket") ?? NaN);
    if (from < upto) zoom(from, upto); else looked();
    if (!Number.isNaN(picked)) { const bucket = bucketAt(t, picked); if (bucket) to.pick(bucket); }
    return [{ chart, zoomed, zoom, range }, () => { clearTimeout(keep); zone.removeEventListener("keydown", keys); end(); }];
  };
  const wrapped = (text, width = 60) => { const lines = [""]; for (const word of String(text).split(" ")) { if ((lines.at(-1) + word).length > width) lines.push(""); lines[lines.length - 1] += `${word} `; } return lines.map((l) => l.trim()).join("\n"); };

  // -- measures, refreshes, lateness -------------------------------------------------------------------------------------------

  const measures = (of, zone, to, line) => {
    const m = of.measures, integer = of.timeline.integer, several = m.lines.length > 1;
    const [chart, end] = begin(zone, {
      grid: { left: 8, right: 16, top: several ? 34 : 16, bottom: 12, containLabel: true },
      legend: several || m.corrected.length ? legend() : undefined,
      tooltip: { trigger: "axis", formatter: (all) => [to.when(all[0].value[0], integer), ...all.slice(0, 9).map((p) => (p.seriesName === "corrected" ? `${p.data.mark.key ? `${p.data.mark.key}: ` : ""}${p.data.mark.reason} in refresh ${p.data.mark.refresh}` : `${several ? `${p.seriesName}: ` : ""}${to.number(p.value[1])}`))].join("\n") },
      xAxis: axis({ type: integer ? "value" : "time", splitLine: { show: false } }),
      yAxis: axis({ type: "value", scale: true }),
    });
    const select = document.getElementById("measure");
    const draw = () => {
      const k = Number(select.value), series = m.lines.map((l, i) => ({
        type: "line", name: several ? l.key || "(no key)" : m.names[k], showSymbol: l.at.length < 60, symbolSize: 5, sampling: "lttb", connectNulls: false, lineStyle: { width: 1.6 },
        data: l.at.map((at, j) => [at, l.values[k][j]]).filter(([at]) => at !== null), itemStyle: { color: LINES[i % LINES.length] },
      }));
      const value = new Map(m.lines.flatMap((l) => l.at.map((at, j) => [`${l.key} ${at}`, l.values[k][j]])));
      const marks = m.corrected.filter((c) => value.has(`${c.key} ${c.at}`)).map((c) => ({ value: [c.at, value.get(`${c.key} ${c.at}`)], mark: c }));
      if (marks.length) series.push({ type: "scatter", name: "corrected", symbol: "diamond", symbolSize: marks.length > 150 ? 6 : 10, z: 5, itemStyle: { color: color("dirty"), borderColor: color("card"), borderWidth: 1 }, data: marks });
      chart.setOption({ series }, { replaceMerge: ["series"] });
      zone.setAttribute("aria-label", `${m.names[k]} over time, ${m.lines.length} line${m.lines.length === 1 ? "" : "s"}, ${marks.length} corrected buckets marked`);
    };
    select.addEventListener("change", () => { draw(); to.remember({ measure: m.names[Number(select.value)] }); });
    const asked = m.names.indexOf(to.query.get("measure"));
    if (asked >= 0) select.value = String(asked);
    draw();
    const follow = (from, upto) => chart.setOption({ xAxis: { min: from, max: upto } });
    if (line) { line.zoomed.add(follow); follow(...line.range()); }
    return end;
  };

  const refreshes = (of, zone, to) => {
    const r = of.refreshes, n = r.n.length, names = [...new Set(r.strategy)].sort(), colors = new Map(names.map((s, i) => [s, LINES[i % LINES.length]]));
    const [, end] = begin(zone, {
      grid: { left: 8, right: 12, top: 34, bottom: 44, containLabel: true },
      legend: legend({ data: ["predicted", ...names.slice(0, 12)], selectedMode: false }),
      tooltip: { trigger: "axis", formatter: ([p]) => { const i = p.dataIndex; return [`refresh ${r.n[i]}: ${r.outcome[i]}`, to.when(r.at[i]), `${r.strategy[i]} by ${r.executor[i]}`, `${to.seconds(r.seconds[i])}${r.predicted[i] ? `, predicted ${to.seconds(r.predicted[i])}` : ""}`, `${to.number(r.read[i])} rows read, ${to.number(r.written[i])} written`, r.policy[i] && `policy ${r.policy[i]}`, r.reason[i] && wrapped(r.reason[i])].filter(Boolean).join("\n"); } },
      xAxis: axis({ type: "category", data: r.n, splitLine: { show: false } }),
      yAxis: axis({ type: "value", name: "s", nameLocation: "end" }),
      dataZoom: [{ type: "inside", startValue: Math.max(0, n - 100), endValue: n - 1, zoomOnMouseWheel: "ctrl", moveOnMouseMove: true }, slider({ startValue: Math.max(0, n - 100), endValue: n - 1 })],
      series: [
        { type: "bar", name: "took", data: r.seconds, large: n > 20000, barMaxWidth: 26, barGap: "-100%", barMinHeight: 1, itemStyle: { color: (p) => (r.outcome[p.dataIndex] === "aborted" ? color("conflict") : colors.get(r.strategy[p.dataIndex])) } },
        { type: "scatter", name: "predicted", data: r.predicted.map((v) => v || "-"), symbol: "circle", symbolSize: 7, large: false, itemStyle: { color: "transparent", borderColor: color("ink"), borderWidth: 1.4 } },
        ...names.slice(0, 12).map((s) => ({ type: "bar", name: s, data: [], itemStyle: { color: colors.get(s) } })),
      ],
    });
    return end;
  };

  const lateness = (of, zone, to) => {
    const [, end] = begin(zone, {
      grid: { left: 8, right: 12, top: 14, bottom: 8, containLabel: true },
      tooltip: { trigger: "axis", formatter: ([p]) => `up to ${p.name}\n${to.number(p.value)} rows` },
      xAxis: axis({ type: "category", data: of.lateness.map(([s]) => to.seconds(s)) }),
      yAxis: axis({ type: "log", min: 0.8, axisLabel: { color: color("soft"), formatter: (v) => (v < 1 ? "" : to.number(v)) } }),
      series: [{ type: "bar", data: of.lateness.map(([, rows]) => rows), barMaxWidth: 40, barMinHeight: 1, itemStyle: { color: color("accent") } }],
    });
    return end;
  };

  const aggregate = (of, zones, to) => {
    const ends = [];
    let line = null;
    if (zones.timeline) { let end; [line, end] = timeline(of, zones.timeline, to); ends.push(end); }
    if (zones.measures) ends.push(measures(of, zones.measures, to, line));
    if (zones.refreshes) ends.push(refreshes(of, zones.refreshes, to));
    if (zones.lateness) ends.push(lateness(of, zones.lateness, to));
    for (const zone of Object.values(zones)) zone.dataset.drawn = "yes";
    return () => ends.forEach((end) => end());
  };

  // -- lineage ------------------------------------------------------------------------------------------------------------------

  /** Draw a graph whose nodes have a column and a row; see `placed` in page.js. */
  const lineage = (graph, found, zone, open) => {
    const marks = { fresh: "fresh", behind: "dirty", dirty: "dirty", empty: "retired", unfinished: "conflict", "source-unreadable": "conflict" };
    const wide = (name) => Math.min(220, Math.max(90, 7.4 * name.length + 30)), { most, deep } = found[0];
    const across = deep ? Math.max(180, (zone.clientWidth - 260) / deep) : 0;
    const nodes = found.map(({ node, x, y }) => ({
      id: node.id, name: node.id, x: x * across, y: y * 72, node, symbol: "rect", symbolSize: [wide(node.name), 34],
      itemStyle: { color: color("card") },
      label: { show: true, formatter: () => node.name, color: color("ink"), width: wide(node.name) - 24, overflow: "truncate", align: "center", padding: [9, 10], borderRadius: 6,
        backgroundColor: color(node.kind === "source" ? "wash" : "card"), borderColor: color(marks[node.state] ?? "accent"), borderWidth: 2, borderType: node.kind === "source" ? "dashed" : "solid" },
    }));
    const links = graph.arrows.map((a) => ({ source: a.from, target: a.to, kind: a.kind, lineStyle: { type: a.kind === "reads" ? "solid" : a.kind === "rolls up" ? "dashed" : "dotted", color: color("soft"), width: 1.4, curveness: a.kind === "takes partials of" ? 0.45 : 0.06 } }));
    const tall = (zone.clientHeight - 80) / Math.max(1, (most - 1) * 72), fits = Math.min(1, tall, deep ? (zone.clientWidth - 260) / (across * deep) : 1);
    let zoom = 1;
    const [chart, end] = begin(zone, {
      tooltip: { formatter: (p) => (p.dataType === "edge" ? p.data.kind : [p.data.node.name, p.data.node.state || p.data.node.kind, p.data.node.engine, wrapped(p.data.node.asset, 70)].filter(Boolean).join("\n")) },
      series: [{ type: "graph", layout: "none", roam: "move", data: nodes, links, edgeSymbol: ["none", "arrow"], edgeSymbolSize: 8, emphasis: { focus: "adjacency" }, left: 130, right: 130, top: 40, bottom: 40, preserveAspect: "contain", nodeScaleRatio: 0.6, zoom, scaleLimit: { min: 0.2, max: 8 } }],
    });
    chart.on("click", (p) => { if (p.dataType === "node") open(p.data.node); });
    const set = (value) => { zoom = Math.min(8, Math.max(0.2, value)); chart.setOption({ series: [{ zoom }] }); };
    button("Zoom in", () => set(zoom * 1.4)); button("Zoom out", () => set(zoom / 1.4)); button("All", () => { zoom = 1; chart.setOption({ series: [{ zoom, center: null }] }); });
    zone.dataset.fits = fits.toFixed(3); zone.dataset.drawn = "yes";
    return end;
  };
  return { aggregate, lineage };
})();
