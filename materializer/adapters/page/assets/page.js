/* The report page: what it shows lies in the page (the lake) and in data/NAME.js (each aggregate), or data/NAME.json where it is
   served. Texts of a lake reach the document as text nodes only, so nothing in them is ever markup. */
"use strict";
(() => {
  const lake = { value: JSON.parse(document.getElementById("lake").textContent) };
  const main = document.getElementById("main");
  const served = document.querySelector('meta[name="materializer-served"]') !== null;
  const loaded = new Map();   // aggregate → its page
  const waiting = new Map();  // aggregate → what is called with its page
  let left = () => {};        // what the page before has to give back

  // -- small things ------------------------------------------------------------------------------------------------------

  /** Make an element; children are elements or texts. */
  const el = (tag, set = {}, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(set)) {
      if (value === null || value === undefined || value === false) continue;
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (name === "style") for (const [key, each] of Object.entries(value)) made.style.setProperty(key, each);
      else made.setAttribute(name, value === true ? "" : value);
    }
    for (const child of children.flat(Infinity)) if (child !== null && child !== undefined && child !== false) made.append(child);
    return made;
  };
  const slug = (word) => word.replaceAll(" ", "-");
  const state = (word) => el("span", { class: `state s-${slug(word)}` }, word);
  const count = (n, one, many = `${one}s`) => `${number(n)} ${n === 1 ? one : many}`;
  const number = (n) => (n === null || n === undefined ? "–" : typeof n !== "number" ? String(n)
    : Number.isInteger(n) || Math.abs(n) >= 1e6 ? n.toLocaleString("en") : n.toLocaleString("en", { maximumSignificantDigits: 5 }));
  const seconds = (s) => (s === null || s === undefined ? "–" : s < 0.0005 ? "under 1 ms" : s < 1 ? `${Math.round(s * 1000)} ms`
    : s < 120 ? `${s.toFixed(s < 10 ? 2 : 1)} s` : s < 7200 ? `${Math.round(s / 60)} min` : s < 172800 ? `${(s / 3600).toFixed(1)} h` : `${Math.round(s / 86400)} days`);
  const bytes = (n) => { let unit = 0; while (n >= 1000 && unit < 4) { n /= 1000; unit += 1; } return `${unit ? n.toFixed(1) : n} ${["B", "kB", "MB", "GB", "TB"][unit]}`; };
  const ago = (ms) => (ms === null || ms === undefined ? "never" : lake.value.at - ms < 1500 ? "just now" : `${seconds((lake.value.at - ms) / 1000)} ago`);
  /** An instant in UTC, or the plain number of integer time. */
  const when = (at, integer = false) => {
    if (at === null || at === undefined) return "…";
    if (integer) return number(at);
    const date = new Date(at);
    if (Number.isNaN(date.getTime())) return `${number(at)} ms`;
    const [day, clock] = date.toISOString().split("T");
    const time = clock.replace(/(:00)?\.000Z$/, "").replace("Z", "");
    return time === "00:00" ? day : `${day} ${time}`;
  };
  const between = (span, integer) => `${when(span[0], integer)} to ${when(span[1], integer)}`;
  const href = (name, query = "") => `#/a/${encodeURIComponent(name)}${query}`;
  const link = (name) => el("a", { href: href(name) }, name);
  const table = (caption, header, rows, { numbers = [], cards = false } = {}) =>
    el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": caption },
      el("table", { class: cards ? "cards" : null },
        el("thead", {}, el("tr", {}, header.map((h, i) => el("th", { scope: "col", class: numbers.includes(i) ? "n" : null }, h)))),
        el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell, i) =>
          el(i ? "td" : "th", { scope: i ? null : "row", class: numbers.includes(i) ? "n" : null, "data-label": i ? header[i] : null }, cell)))))));
  /** Buttons that do nothing until the chart is there. */
  const zooms = (...names) => el("div", { class: "tools", id: "zooms", role: "group", "aria-label": "Zoom" }, names.map((name) => el("button", { type: "button", disabled: true }, name)));
  /** A part that is made when it is opened. */
  const folded = (title, make) => {
    const box = el("details", {}, el("summary", {}, title));
    box.addEventListener("toggle", () => { if (box.open && box.children.length === 1) box.append(make()); });
    return box;
  };
  const card = (id, title, lead, ...children) =>
    el("section", { class: "card", id, "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title` }, title), lead && el("p", { class: "lead" }, lead), ...children);

  // -- loading -----------------------------------------------------------------------------------------------------------

  const script = (src) => new Promise((done, failed) => {
    const made = el("script", { src, onload: () => { made.remove(); done(); }, onerror: () => { made.remove(); failed(new Error(src)); } });
    document.head.append(made);
  });
  let charting = null;
  const charts = () => (charting ??= script("echarts.min.js").then(() => script("charts.js")).then(() => window.materializerCharts));
  window.materializerPage = (name, page) => { loaded.set(name, page); waiting.get(name)?.(page); waiting.delete(name); };
  const page = (name, { again = false } = {}) => {
    if (loaded.has(name) && !again) return Promise.resolve(loaded.get(name));
    return served ? fetched(name) : new Promise((done, failed) => {  // a page from a folder may not fetch
      waiting.set(name, done);
      script(`data/${encodeURIComponent(name)}.js`).catch(failed);
    });
  };
  const fetched = async (name) => {
    const answer = await fetch(`data/${encodeURIComponent(name)}.json`);
    if (!answer.ok) throw new Error(await answer.text());
    loaded.set(name, await answer.json());
    return loaded.get(name);
  };

  // -- the lake ----------------------------------------------------------------------------------------------------------

  const RANKS = ["source-unreadable", "unfinished", "withheld", "promise broken", "check failed", "conflict", "dirty", "behind", "empty", "fresh"];
  const columns = [
    ["aggregate", (r) => r.name.toLowerCase(), (r) => link(r.name)],
    ["state", (r) => RANKS.indexOf(r.rank), (r) => [state(r.rank), r.why && el("span", { class: "why" }, r.why)]],
    ["materialised below", (r) => r.until ?? -Infinity, (r) => when(r.until, r.integer)],
    ["promise", (r) => r.staleness ?? -1, (r) => promise(r)],
    ["last refresh", (r) => -(r.last?.at ?? -Infinity), (r) => (r.last ? [ago(r.last.at), el("span", { class: "why" }, `${r.last.outcome}, ${r.last.strategy}`)] : "never")],
    ["price", (r) => r.price ?? -1, (r) => seconds(r.price)],
    ["rows", (r) => r.rows ?? -1, (r) => number(r.rows)],
    ["quality", (r) => -(r.quality?.failed ?? -1), (r) => quality(r.quality)],
  ];
  const promise = (r) => {
    if (r.promise === null) return "–";
    const stale = r.staleness === null ? "not known" : r.integer ? number(r.staleness) : seconds(r.staleness);
    return [r.promise_met === false ? "broken: " : r.promise_met ? "kept: " : "", `${stale} of ${r.promise}`];
  };
  const quality = (q) => {
    if (q === null) return "–";
    if (q.failed) return el("span", { class: "state s-check-failed" }, `${q.failed} not met`);
    const bound = q.at_most === null ? (q.clean ? `${q.clean} of ${q.clean} canaries equal` : "") : `at most ${(100 * q.at_most).toFixed(q.at_most < 0.01 ? 2 : 1)} % wrong`;
    return [q.met ? `${q.met} met` : "", q.met && bound ? ", " : "", bound || (q.met ? "" : "–")];
  };
  const shown = { rank: null, column: 1, down: false };

  const showLake = () => {
    const of = lake.value;
    document.title = "materializer: the lake";
    const ranks = RANKS.map((rank) => [rank, of.aggregates.filter((a) => a.rank === rank).length]).filter(([, n]) => n);
    const body = el("div");
    const draw = () => {
      const rows = of.aggregates.filter((a) => shown.rank === null || a.rank === shown.rank);
      const key = columns[shown.column][1];
      rows.sort((a, b) => { const [x, y] = [key(a), key(b)]; return (x < y ? -1 : x > y ? 1 : a.name.toLowerCase() < b.name.toLowerCase() ? -1 : 1) * (shown.down ? -1 : 1); });
      const made = table("Aggregates", columns.map(([name]) => name), rows.map((r) => columns.map(([, , cell]) => cell(r))), { numbers: [5, 6], cards: true });
      made.querySelectorAll("thead th").forEach((th, i) => {
        th.replaceChildren(el("button", { type: "button", onclick: () => { shown.down = shown.column === i && !shown.down; shown.column = i; draw(); made.querySelectorAll("thead button")[i]?.focus(); } }, columns[i][0]));
        if (i === shown.column) th.setAttribute("aria-sort", shown.down ? "descending" : "ascending");
      });
      const focused = body.contains(document.activeElement) ? [...body.querySelectorAll("thead button")].indexOf(document.activeElement) : -1;
      body.replaceChildren(made);
      if (focused >= 0) made.querySelectorAll("thead button")[focused].focus();
    };
    const chips = el("ul", { class: "chips", "aria-label": "States" }, ranks.map(([rank, n]) => el("li", {},
      el("button", { class: "chip", type: "button", "aria-pressed": String(shown.rank === rank), onclick: (e) => {
        shown.rank = shown.rank === rank ? null : rank;
        chips.querySelectorAll("button").forEach((b) => b.setAttribute("aria-pressed", String(b === e.currentTarget && shown.rank !== null)));
        draw();
      } }, el("b", {}, n), rank))));
    draw();
    const todo = of.aggregates.filter((a) => a.rank !== "fresh").length;
    const wrong = of.aggregates.filter((a) => RANKS.indexOf(a.rank) < RANKS.indexOf("dirty")).length + of.broken.length;
    main.replaceChildren(
      el("h1", {}, wrong ? `${count(wrong, "aggregate")} need${wrong === 1 ? "s" : ""} attention` : of.aggregates.length ? (todo ? `Nothing is wrong; ${number(todo)} to refresh` : "Everything is fresh") : "No aggregates are defined yet"),
      el("p", { class: "lead" }, count(of.aggregates.length, "aggregate"), " in ", el("span", { class: "path" }, of.root)),
      ...of.broken.map((b) => el("p", { class: "alert" }, `${b.name} cannot be read: ${b.problem}`)), chips, body);
  };

  // -- an aggregate ------------------------------------------------------------------------------------------------------

  const showAggregate = async (name, query) => {
    if (!lake.value.aggregates.some((a) => a.name === name)) { notFound(name); return; }
    document.title = `${name}: materializer`;
    if (!loaded.has(name)) main.replaceChildren(el("p", { class: "waiting" }, `Loading ${name} …`));
    let of;
    try { of = await page(name); } catch { if (current().name === name) notFound(name); return; }
    if (current().name !== name) return;
    const f = of.facts, integer = of.timeline.integer, row = lake.value.aggregates.find((a) => a.name === name);
    const around = neighbours(`a:${name}`);
    const facts = [
      ["Source", el("span", { class: "path" }, f.source)],
      ["Captured", f.newest === null ? `version ${number(f.cursor)}` : f.newest === f.cursor ? `version ${number(f.cursor)}, the newest` : `version ${number(f.cursor)} of ${number(f.newest)}`],
      ["Buckets", of.timeline.grid], ["Rows", number(f.rows)], ["Keys", f.keys.join(", ") || "none"], ["Measures", f.measures.join(", ") || of.engine],
      ["Materialised below", when(f.threshold, integer)],
      f.frozen !== null && ["Frozen below", when(f.frozen, integer)], f.retired !== null && ["Stored from", when(f.retired, integer)],
      f.holder && ["Worked on by", f.holder], row && row.promise !== null && ["Promise", promise(row)],
      ["Reads", around.up.length ? around.up.map((n, i) => [i ? ", " : "", n.kind === "aggregate" ? link(n.name) : n.name]) : "–"],
      ["Read by", around.down.length ? around.down.map((n, i) => [i ? ", " : "", link(n.name)]) : "nothing in this lake"],
      f.next_version && ["Next version", f.next_version], f.previous > 0 && ["Versions before", number(f.previous)],
    ].filter(Boolean);
    const zones = {};
    const chart = (id, kind, label) => (zones[id] = el("div", { class: `chart ${kind}`, id: `chart-${id}`, role: "img", "aria-label": label, tabindex: id === "timeline" ? "0" : null }));
    main.replaceChildren(
      el("h1", {}, name), el("p", {}, state(row ? row.rank : f.state), row?.why ? ` – ${row.why}` : ""), of.comment && el("p", { class: "lead" }, of.comment),
      f.problem && el("p", { class: "alert" }, f.problem),
      el("dl", { class: "facts" }, facts.map(([dt, dd]) => el("div", {}, el("dt", {}, dt), el("dd", {}, dd)))),
      timeCard(of, chart), measureCard(of, chart),
      el("div", { class: "grid2" }, refreshCard(of, chart), planCard(of, integer)),
      el("div", { class: "grid2" }, qualityCard(of, integer), latenessCard(of, chart)),
      card("definition", "Definition", null, of.definition ? el("pre", { tabindex: "0" }, of.definition) : el("p", { class: "none" }, "It was defined in Python."),
        Object.keys(of.properties).length > 0 && folded("Properties", () => table("Properties", ["property", "value"], Object.entries(of.properties)))),
    );
    const draw = await charts();
    if (current().name === name) left = draw.aggregate(of, zones, { query, when, number, seconds, between, remember, pick: (bucket) => pick(of, bucket) });
  };

  const STATES = { fresh: "fresh", new: "never materialised", dirty: "dirty", coming: "dirty by versions not captured yet", withheld: "withheld by the gate", conflict: "conflict: cannot be computed", frozen: "frozen", retired: "retired", running: "being computed" };
  const timeCard = (of, chart) => {
    const t = of.timeline, integer = t.integer;
    if (t.extent === null) return card("time", "Time line", "There are no rows yet.");
    const kinds = [...new Set(t.spans.map((s) => s.kind))], dirty = t.spans.filter((s) => s.kind !== "fresh" && s.kind !== "frozen");
    const zone = chart("timeline", "line", `Time line of ${of.name} from ${when(t.extent[0], integer)} to ${when(t.extent[1], integer)}: ${kinds.map((k) => `${t.spans.filter((s) => s.kind === k).length} spans ${STATES[k]}`).join(", ")}. Arrow keys move, plus and minus zoom.`);
    zone.style.setProperty("--lanes", `${150 + 26 * t.policies.length}px`);
    return card("time", "Time line", `Each stretch of time by its state, in buckets of ${t.grid}${integer ? "" : ", UTC"}. Choose a bucket to see its refreshes.`,
      zooms("All", ...(integer ? ["1/10", "1/100"] : ["Year", "Month", "Week", "Day"]), "Buckets", "Next dirty"), zone,
      el("ul", { class: "key", "aria-label": "Colours" }, kinds.map((k) => el("li", {}, el("span", { class: `state s-${k}` }, STATES[k])))),
      el("div", { class: "picked", id: "picked", "aria-live": "polite" }, el("span", { class: "none" }, "No bucket is chosen.")),
      folded(`All spans as a table (${number(t.spans.length)})`, () => table("Spans", ["state", "from", "to", "why"],
        [...dirty, ...t.spans.filter((s) => !dirty.includes(s))].slice(0, 500).map((s) => [state(s.kind), when(s.start, integer), when(s.end, integer), s.why]))),
      t.policies.length > 0 && folded(`Policies (${t.policies.length})`, () => table("Policies", ["policy", "window now", "schedule", "due"],
        t.policies.map((p) => [p.name, p.window ? between(p.window, integer) : "no whole bucket", p.schedule ?? "none", p.due ? "now" : "not yet"]))));
  };

  /** Show what is known of one bucket. */
  const pick = (of, bucket) => {
    const [start, end] = bucket, integer = of.timeline.integer, r = of.refreshes;
    const spans = of.timeline.spans.filter((s) => (s.start ?? -Infinity) < end && (s.end ?? Infinity) > start);
    const over = [];
    for (let i = r.n.length - 1; i >= 0 && over.length < 5; i -= 1) if ((r.start[i] ?? -Infinity) < end && (r.end[i] ?? Infinity) > start) over.push(i);
    const values = of.measures.lines.slice(0, 4).map((line) => { const i = line.at.indexOf(start) >= 0 ? line.at.indexOf(start) : line.at.indexOf(end); return i < 0 ? null : `${line.key ? `${line.key}: ` : ""}${of.measures.names.slice(0, 6).map((m, k) => `${m} ${number(line.values[k][i])}`).join(", ")}`; }).filter(Boolean);
    document.getElementById("picked")?.replaceChildren(
      el("b", {}, between(bucket, integer)), el("div", {}, spans.map((s) => el("div", {}, state(s.kind), ` ${s.why}`))),
      values.length ? el("div", {}, values.map((v) => el("div", {}, v))) : null,
      el("div", { class: "none" }, over.length ? `Refreshes of a window with it: ${over.map((i) => `${r.n[i]} (${r.outcome[i]}, ${r.strategy[i]}, ${when(r.at[i])})`).join("; ")}` : "No refresh on record had it in its window."));
  };

  const measureCard = (of, chart) => {
    const m = of.measures;
    if (!m.names.length) return card("measures", "Measures", m.note || "There is no measure that is a number, or nothing is published yet.");
    const lead = [m.note && `Shown: ${m.note}. `, m.feed ? `${count(m.corrected.length, "corrected bucket")} ${m.corrected.length === 1 ? "is" : "are"} marked.` : "Corrected buckets can be marked with 'output.change_feed' = 'true'."].filter(Boolean).join("");
    return card("measures", "Measures", lead,
      el("div", { class: "tools" }, el("label", {}, "Measure", el("select", { id: "measure" }, m.names.map((n, i) => el("option", { value: i }, n))))),
      chart("measures", "", `The measure over time, ${count(m.lines.length, "line")}`),
      folded("Newest values as a table", () => table("Values", ["bucket", ...(of.facts.keys.length ? ["key"] : []), ...m.names],
        m.lines.flatMap((l) => l.at.slice(-40).map((at, i, a) => [at, l.key, l.values.map((v) => v[v.length - a.length + i])])).sort((a, b) => b[0] - a[0]).slice(0, 200)
          .map(([at, key, v]) => [when(at, of.timeline.integer), ...(of.facts.keys.length ? [key] : []), ...v.map(number)]), { numbers: m.names.map((_, i) => i + (of.facts.keys.length ? 2 : 1)) })),
      m.corrected.length > 0 && folded(`Corrected buckets (${number(m.corrected.length)})`, () => table("Corrected buckets", ["bucket", "key", "why", "refresh"],
        [...m.corrected].sort((a, b) => b.refresh - a.refresh).slice(0, 500).map((c) => [when(c.at, of.timeline.integer), c.key || "–", c.reason, number(c.refresh)]), { numbers: [3] })));
  };

  const refreshCard = (of, chart) => {
    const r = of.refreshes, n = r.n.length;
    if (!n) return card("refreshes", "Refreshes", "None has ended yet.");
    const body = el("div");
    let upto = 20;
    const draw = () => {
      const rows = [];
      for (let i = n - 1; i >= Math.max(0, n - upto); i -= 1) rows.push([number(r.n[i]), [state(r.outcome[i]), r.reason[i] && el("span", { class: "why" }, r.reason[i])], when(r.at[i]), seconds(r.seconds[i]), r.predicted[i] ? seconds(r.predicted[i]) : "–", `${r.strategy[i]}, ${r.executor[i]}`, number(r.read[i]), number(r.written[i]), r.policy[i] || "–"]);
      body.replaceChildren(table("Refreshes", ["refresh", "outcome", "ended", "took", "predicted", "strategy, executor", "rows read", "rows written", "policy"], rows, { numbers: [3, 4, 6, 7] }),
        el("div", { class: "tools" }, upto < n && el("button", { type: "button", onclick: () => { upto += 100; draw(); } }, `Show more of ${number(n)}`)));
    };
    return card("refreshes", "Refreshes", `${number(n)} on record. Bars are seconds, by strategy; rings are what the plan predicted.`, chart("refreshes", "", `Seconds of the last ${Math.min(n, 100)} refreshes by strategy, with the predicted seconds`),
      folded("As a table", () => { draw(); return body; }));
  };

  const planCard = (of, integer) => {
    const p = of.plan;
    if (p === null) return card("plan", "Next plan", "Nothing has to be done.");
    if (p.problem) return card("plan", "Next plan", null, el("p", { class: "alert" }, p.problem, p.hint ? ` – ${p.hint}` : ""));
    return card("plan", "Next plan", `Refresh ${p.refresh} would read version ${number(p.version)}: about ${seconds(p.seconds)} by ${p.executor === "local" ? "this process" : "Spark"}${p.runs > 1 ? ` for the first of ${number(p.runs)} runs` : ""}.`,
      p.because && el("p", {}, p.because),
      p.steps.map((s, i) => el("div", {}, el("h3", {}, `${i + 1}. ${s.strategy}`), el("p", {}, `${s.spans.slice(0, 3).map((x) => between(x, integer)).join("; ")}${s.spans.length > 3 ? ` and ${s.spans.length - 3} more` : ""}`),
        s.why && el("p", {}, `because ${s.why}`), s.reads && el("p", { class: "none" }, `reads at most ${count(s.reads.rows, "row")}, ${bytes(s.reads.bytes)} in ${count(s.reads.files, "file")}; ${seconds(s.seconds)}`),
        s.rejected.filter((r) => r.why).map((r) => el("p", { class: "none" }, `not ${r.strategy}: ${r.why}${r.seconds ? ` (${seconds(r.seconds)})` : ""}`)))));
  };

  const qualityCard = (of, integer) => {
    const q = of.quality, parts = [];
    const answers = (title, a) => el("div", {}, el("h3", {}, title), a.failed.length ? el("ul", {}, a.failed.map((f) => el("li", {}, el("b", {}, f.severity), ` ${f.words}`))) : el("p", {}, `${a.passed === null ? "all" : number(a.passed)} met`));
    for (const a of q.gate) parts.push(answers(`Gate of refresh ${q.refresh}: ${a.suite || (a.of === "output" ? "built-in checks" : a.of)}`, a));
    if (q.anyway) parts.push(el("p", { class: "alert" }, `Published anyway: ${q.anyway}`));
    if (q.withheld.length) parts.push(el("p", {}, state("withheld"), ` ${q.withheld.map((s) => between(s, integer)).join("; ")}`));
    if (q.check) parts.push(answers(`Last check, ${when(q.check.at)}`, q.check));
    const c = q.canaries;
    if (c) parts.push(el("div", {}, el("h3", {}, "Canaries"), el("p", {}, !c.clean ? "No published bucket was sampled clean yet, so nothing is bounded."
      : c.at_most === null ? `${c.clean} of ${count(c.clean, "random published bucket")} equal.`
      : `${count(c.clean, "random published bucket")} computed again without a difference: at most ${(100 * c.at_most).toFixed(2)} % of all are wrong, with 95 % confidence.`),
      c.differed_n > 0 && el("p", { class: "alert" }, `Refresh ${c.differed_n} found a difference in ${c.differed.map((s) => between(s, integer)).join("; ")}`)));
    if (q.failing.length) parts.push(folded(`Failing rows (${q.failing.length} newest)`, () => table("Failing rows", ["refresh", "expectation", "severity", "row"], q.failing.map((r) => [number(r.refresh), r.expectation, r.severity, r.row]))));
    if (!parts.length) parts.push(el("p", { class: "none" }, q.suites.length ? "Its suites were not asked yet." : "It has no suite, no check and no canaries."));
    return card("quality", "Quality", q.suites.length ? `Suites of: ${q.suites.join(", ")}` : null, ...parts);
  };

  const latenessCard = (of, chart) => (of.lateness.length
    ? card("lateness", "Lateness", `How long after its event a row reached the source: ${number(of.lateness.reduce((a, [, n]) => a + n, 0))} rows inserted since the aggregate was defined.`,
      chart("lateness", "low", "Histogram of the lateness of rows"), folded("As a table", () => table("Lateness", ["up to", "rows"], of.lateness.map(([s, n]) => [seconds(s), number(n)]), { numbers: [1] })))
    : card("lateness", "Lateness", "No row was inserted since the aggregate was defined."));

  // -- lineage -----------------------------------------------------------------------------------------------------------

  const neighbours = (id) => {
    const { nodes, arrows } = lake.value.lineage, by = new Map(nodes.map((n) => [n.id, n]));
    const unique = (ids) => [...new Set(ids)].map((i) => by.get(i)).filter(Boolean);
    return { up: unique(arrows.filter((a) => a.to === id).map((a) => a.from)), down: unique(arrows.filter((a) => a.from === id).map((a) => a.to)) };
  };
  /** Columns by the longest way from a source; rows so that neighbours lie near each other. */
  const placed = ({ nodes, arrows }) => {
    const depth = new Map(nodes.map((n) => [n.id, 0]));
    for (let i = 0; i < nodes.length; i += 1) {
      let moved = false;
      for (const a of arrows) if (a.kind !== "takes partials of" && depth.get(a.to) < depth.get(a.from) + 1 && depth.get(a.from) < nodes.length) { depth.set(a.to, depth.get(a.from) + 1); moved = true; }
      if (!moved) break;
    }
    const columns = [];
    for (const n of nodes) (columns[depth.get(n.id)] ??= []).push(n);
    const row = new Map();
    columns.forEach((c) => c?.forEach((n, i) => row.set(n.id, i)));
    for (let pass = 0; pass < 4; pass += 1) for (const column of columns) {
      if (!column) continue;
      const near = (n) => { const rows = arrows.flatMap((a) => (a.to === n.id ? [row.get(a.from)] : a.from === n.id ? [row.get(a.to)] : [])); return rows.length ? rows.reduce((x, y) => x + y, 0) / rows.length : row.get(n.id); };
      const order = new Map(column.map((n) => [n, near(n)]));
      column.sort((a, b) => order.get(a) - order.get(b)).forEach((n, i) => row.set(n.id, i));
    }
    const most = Math.max(...columns.filter(Boolean).map((c) => c.length));
    return nodes.map((n) => { const column = columns[depth.get(n.id)]; return { node: n, x: depth.get(n.id), y: row.get(n.id) + (most - column.length) / 2, most, deep: columns.length - 1 }; });
  };
  const showLineage = async () => {
    document.title = "materializer: lineage";
    const { nodes, arrows } = lake.value.lineage;
    const zone = el("div", { class: "chart tall", id: "chart-lineage", role: "img", "aria-label": `What depends on what: ${count(nodes.length, "node")}, ${count(arrows.length, "arrow")}; the list below has the same` });
    const named = new Map(nodes.map((n) => [n.id, n])), found = nodes.length ? placed(lake.value.lineage) : [];
    zone.style.setProperty("--high", `${Math.min(900, Math.max(200, (found[0]?.most ?? 0) * 72 + 80))}px`);
    main.replaceChildren(el("h1", {}, "Lineage"),
      el("p", { class: "lead" }, "An arrow goes from what is read to what reads it. Choose an aggregate to open it; drag to move, and use the buttons to zoom."),
      nodes.length ? el("section", { class: "card", "aria-label": "Graph" }, zooms("Zoom in", "Zoom out", "All"), zone) : el("p", { class: "none" }, "There is nothing yet."),
      el("section", { class: "card", "aria-labelledby": "links-title" }, el("h2", { id: "links-title" }, "As a list"), el("ul", { class: "links" }, arrows.map((a) => {
        const [from, to] = [named.get(a.from), named.get(a.to)];
        return el("li", {}, link(to.name), ` ${a.kind} `, from.kind === "aggregate" ? link(from.name) : el("span", { class: "path" }, from.name));
      }))),
      el("section", { class: "card", "aria-labelledby": "assets-title" }, el("h2", { id: "assets-title" }, "Tables"), el("p", { class: "lead" }, "Each is a Delta table, and the asset of an Airflow DAG where DAGs are made of this lake."),
        table("Tables", ["name", "kind", "place"], nodes.map((n) => [n.kind === "aggregate" ? link(n.name) : n.name, n.engine || n.kind, el("span", { class: "path" }, n.asset)]))));
    if (!nodes.length) return;
    const draw = await charts();
    if (current().view === "lineage") left = draw.lineage(lake.value.lineage, found, zone, (node) => { if (node.kind === "aggregate") location.hash = href(node.name); });
  };

  // -- where one is ------------------------------------------------------------------------------------------------------

  const notFound = (name) => { document.title = "not found: materializer"; main.replaceChildren(el("h1", {}, `There is no page of "${name}"`), el("p", {}, el("a", { href: "#/" }, "Go to the lake"))); };
  const current = () => {
    const [path, query = ""] = location.hash.replace(/^#/, "").split("?"), parts = path.split("/").filter(Boolean);
    let name = null;
    try { name = parts[0] === "a" ? decodeURIComponent(parts[1] ?? "") : null; } catch { name = parts[1]; }
    return { view: name !== null ? "aggregate" : parts.length ? parts[0] : "lake", name, query: new URLSearchParams(query) };
  };
  /** Put where one looks into the address, without a step back for each move. */
  const remember = (values) => {
    const at = current(), query = at.query;
    for (const [key, value] of Object.entries(values)) if (value === null) query.delete(key); else query.set(key, value);
    history.replaceState(null, "", `#/a/${encodeURIComponent(at.name)}${query.size ? `?${query}` : ""}`);
  };
  const show = ({ keep = false } = {}) => {
    left(); left = () => {};
    const at = current(), y = scrollY;
    for (const a of document.querySelectorAll("[data-nav]")) if (a.dataset.nav === at.view) a.setAttribute("aria-current", "page"); else a.removeAttribute("aria-current");
    const done = at.view === "aggregate" ? showAggregate(at.name, at.query) : at.view === "lineage" ? showLineage() : at.view === "lake" ? showLake() : notFound(at.view);
    document.getElementById("made").textContent = `Made ${when(Math.round(lake.value.at / 1000) * 1000)} UTC by materializer ${lake.value.version}; journal version ${lake.value.journal}`;
    if (!keep) { scrollTo(0, 0); main.focus({ preventScroll: true }); } else Promise.resolve(done).then(() => scrollTo(0, y));
    return done;
  };
  addEventListener("hashchange", () => show());

  // -- search ------------------------------------------------------------------------------------------------------------

  const input = document.getElementById("search"), found = document.getElementById("found");
  let at = 0;
  const matches = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    return words.length ? lake.value.aggregates.filter((a) => words.every((w) => `${a.name} ${a.rank} ${a.source}`.toLowerCase().includes(w)))
      .sort((a, b) => b.name.toLowerCase().startsWith(words[0]) - a.name.toLowerCase().startsWith(words[0])).slice(0, 12) : [];
  };
  const close = () => { found.hidden = true; input.setAttribute("aria-expanded", "false"); input.removeAttribute("aria-activedescendant"); };
  const suggest = () => {
    const list = matches();
    if (!input.value.trim()) return close();
    at = Math.max(0, Math.min(at, list.length - 1));
    found.replaceChildren(...(list.length ? list.map((a, i) => el("li", { role: "option", id: `found-${i}`, "aria-selected": String(i === at), onmousedown: (e) => { e.preventDefault(); go(a); } }, a.name, state(a.rank)))
      : [el("li", { role: "option", "aria-disabled": "true", "aria-selected": "false" }, "No aggregate is called so")]));
    found.hidden = false; input.setAttribute("aria-expanded", "true");
    if (list.length) input.setAttribute("aria-activedescendant", `found-${at}`);
  };
  const go = (a) => { close(); input.value = ""; input.blur(); location.hash = href(a.name); };
  input.addEventListener("input", () => { at = 0; suggest(); });
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (e) => {
    const list = matches();
    if (e.key === "ArrowDown" || e.key === "ArrowUp") { e.preventDefault(); at = (at + (e.key === "ArrowDown" ? 1 : list.length - 1)) % Math.max(1, list.length); suggest(); }
    else if (e.key === "Enter" && list[at]) go(list[at]);
    else if (e.key === "Escape") { input.value = ""; close(); input.blur(); }
  });
  addEventListener("keydown", (e) => {
    if (e.key === "/" && !e.ctrlKey && !e.metaKey && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName)) { e.preventDefault(); input.focus(); }
  });

  // -- a served page looks for news -----------------------------------------------------------------------------------------

  const live = document.getElementById("live");
  const look = async () => {
    try {
      const version = Number(await (await fetch("version")).text());
      if (version !== lake.value.journal) {
        const text = await (await fetch("./")).text();
        lake.value = JSON.parse(new DOMParser().parseFromString(text, "text/html").getElementById("lake").textContent);
        loaded.clear();
        const name = current().name;
        if (name !== null) await page(name, { again: true }).catch(() => {});
        await show({ keep: true });
      }
      live.textContent = "Live: shows each change of the journal";
    } catch { live.textContent = "The server does not answer; this is what it showed last"; }
    setTimeout(look, 2000);
  };
  if (served) setTimeout(look, 1000);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => show({ keep: true }));
  show();
})();
