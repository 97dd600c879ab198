// The pictures and the controls; every number comes from the functions above.
const INK = "#1b1b1b", QUIET = "#6a6a6a", FAINT = "#d9d9d9", BLUE = "#0072b2", ORANGE = "#d55e00", GREEN = "#007a5a";
const DECIDED = {
  "no label": [FAINT, "o"], "both say the same": [QUIET, "o"], "global model alone": [GREEN, "^"],
  "disputed, local label leads": [ORANGE, "s"], "disputed, global label leads": [BLUE, "D"],
};
const STAGES = { predicted: "all predictions", kept: "kept by the filters", selected: "selected" };
const short = (v) => String(Number(v.toPrecision(3))).replace("-", "−");
const clamp = (v, low, high) => Math.min(Math.max(v, low), high);

function tag(name, attributes = {}, ...inside) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, typeof value === "number" ? +value.toFixed(2) : value);
  node.append(...inside);
  return node;
}
const hint = (text) => tag("title", {}, text);

/** An end of an axis from 0: the next round number above. */
function niceTop(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return power * [1.2, 1.6, 2, 3, 4, 5, 6, 8, 10, 12].find((m) => m * power >= 1.04 * value);
}
function ticksTo(top) {
  const step = [1, 2, 5].flatMap((m) => [0.01, 0.1, 1, 10, 100, 1000].map((p) => m * p)).sort((a, b) => a - b).find((s) => top / s <= 5);
  return Array.from({ length: Math.floor(top / step + 1e-9) + 1 }, (_, i) => [i * step, short(i * step)]);
}
function everyFew(count, atMost = 12) {
  const step = [1, 2, 5, 10, 20, 50].find((s) => count / s <= atMost);
  return Array.from({ length: Math.ceil(count / step) }, (_, i) => [i * step, String(i * step)]);
}

/** One panel of a picture: axes with a scale each, drawn from scratch at every move. */
class Panel {
  constructor(place, title, { height = 230, left = 44, right = 8, top = 24, bottom = 36, x, y }) {
    this.svg = tag("svg", { viewBox: `0 0 460 ${height}`, role: "img", "aria-label": title }, hint(title));
    Object.assign(this, { left, top, width: 460 - left - right, height: height - top - bottom, xs: x, ys: y });
    this.write(0, 13, title, { "font-weight": 600 });
    this.box = document.createElement("div");
    this.box.append(this.svg);
    document.getElementById(place).append(this.box);
  }
  x(v) { return this.left + this.width * (v - this.xs[0]) / (this.xs[1] - this.xs[0]); }
  y(v) { return this.top + this.height * (1 - (v - this.ys[0]) / (this.ys[1] - this.ys[0])); }
  add(name, attributes, text) { const node = tag(name, attributes); if (text) node.append(hint(text)); this.svg.append(node); return node; }
  write(x, y, text, more = {}) { this.svg.append(tag("text", { x, y, ...more }, text)); }
  axes(xTicks, yTicks, xLabel, yLabel, lines = "y") {
    const [l, t, r, b] = [this.left, this.top, this.left + this.width, this.top + this.height];
    for (const [v, text] of xTicks) {
      if (lines.includes("x")) this.add("line", { x1: this.x(v), x2: this.x(v), y1: t, y2: b, stroke: "#ececec" });
      this.write(this.x(v), b + 14, text, { "text-anchor": "middle" });
    }
    for (const [v, text] of yTicks) {
      if (lines.includes("y")) this.add("line", { x1: l, x2: r, y1: this.y(v), y2: this.y(v), stroke: "#ececec" });
      this.write(l - 5, this.y(v) + 4, text, { "text-anchor": "end" });
    }
    this.add("path", { d: `M${l},${t}V${b}H${r}`, fill: "none", stroke: QUIET });
    if (xLabel) this.write((l + r) / 2, b + 30, xLabel, { "text-anchor": "middle" });
    if (yLabel) this.write(0, 0, yLabel, { transform: `translate(11,${(t + b) / 2}) rotate(-90)`, "text-anchor": "middle" });
  }
  bar(x, half, from, to, fill, stroke, text) {
    const [a, b] = [this.y(Math.max(from, to)), this.y(Math.min(from, to))];
    this.add("rect", { x: this.x(x - half), width: this.x(x + half) - this.x(x - half), y: a, height: b - a, fill, stroke }, text);
  }
  dash(x1, x2, y1, y2) { this.add("line", { x1, x2, y1, y2, stroke: INK, "stroke-dasharray": "5 3" }); }
  mark(v, w, kind, color, size, text) {
    const x = this.x(v), y = this.y(w), look = { fill: color, stroke: color === FAINT ? QUIET : "white", "stroke-width": 0.7 };
    if (kind === "o") this.add("circle", { cx: x, cy: y, r: size, ...look }, text);
    if (kind === "O") this.add("circle", { cx: x, cy: y, r: size, fill: "none", stroke: color, "stroke-opacity": 0.7 }, text);
    if (kind === "^") this.add("path", { d: `M${x},${y - size}l${size},${1.8 * size}h${-2 * size}z`, ...look }, text);
    if (kind === "s") this.add("rect", { x: x - size, y: y - size, width: 2 * size, height: 2 * size, ...look }, text);
    if (kind === "D") this.add("path", { d: `M${x},${y - size}l${size},${size}l${-size},${size}l${-size},${-size}z`, ...look }, text);
    if (kind === "x") this.add("path", { d: `M${x - size},${y - size}l${2 * size},${2 * size}m0,${-2 * size}l${-2 * size},${2 * size}`, stroke: color, fill: "none" }, text);
  }
}
const classTicks = () => data.names.map((name, c) => [c, C * Math.max(...data.names.map((n) => n.length)) <= 84 ? name : String(c)]);

/** Clients × classes: discs whose area is a number of images. */
function bubbles(place, title, counts, top, unit) {
  const K = counts.length, row = K > 12 ? 13 : 21;
  const p = new Panel(place, title, { height: 60 + row * K, x: [-0.6, C - 0.4], y: [K - 0.4, -0.6] });
  p.axes(classTicks(), everyFew(K, 20), "", "client", "xy");
  const cell = Math.min(0.94 * p.height / K, 0.96 * p.width / C, 30);
  counts.forEach((own, k) => own.forEach((v, c) => {
    if (!v) return;
    const r = cell * Math.sqrt(v / Math.max(top, 1)) / 2, word = String(v), fits = 2 * r > 5.4 * word.length + 2;
    p.add("circle", { cx: p.x(c), cy: p.y(k), r, fill: "#a9cfe8", stroke: "#3d7ea6" }, `client ${k}, ${data.names[c]}: ${v} ${unit}`);
    if (cell > 12) p.write(p.x(c) + (fits ? 0 : r + 1.5), p.y(k) + 3, word, { "text-anchor": fits ? "middle" : "start", class: "small" });
  }));
}
function legend(panel, entries) {
  const line = document.createElement("p");
  line.className = "legend";
  for (const [name, fill, stroke] of entries) {
    const swatch = document.createElement("span");
    swatch.style.cssText = `background:${fill};border-color:${stroke}`;
    line.append(swatch, ` ${name} `);
  }
  panel.box.append(line);
}
function bars(place, title, yLabel, series, top, height = 210) {
  const p = new Panel(place, title, { height, bottom: 22, x: [-0.6, C - 0.4], y: [0, top] });
  p.axes(classTicks(), ticksTo(top), "", yLabel);
  const half = series.length > 2 ? 0.125 : 0.17;
  series.forEach(({ name, values, fill, stroke, from }, i) => values.forEach((v, c) => {
    const side = (i - (series.length - 1) / 2) * 2.15 * half, [f, s] = typeof fill === "function" ? fill(v) : [fill, stroke];
    p.bar(c + side, half, from ? from[c] : 0, v + (from ? from[c] : 0), f, s, `${data.names[c]}: ${name} ${short(v)}`);
  }));
  return p;
}
const clear = (...places) => places.forEach((place) => document.getElementById(place).replaceChildren());
function say(place, text, note = "") {
  document.getElementById(`${place}-words`).textContent = text;
  document.getElementById(`${place}-note`).textContent = note;
}
const one = (v) => (100 * v).toFixed(1);
const listed = (names) => names.slice(0, 6).join(", ") + (names.length > 6 ? ` and ${names.length - 6} more` : "") || "none";

const scheme = () => data.schemes[state.scheme];
function currentDivision() {
  return divisionOf(state.scheme, scheme().levels[state.level], data.clients[state.clients], state.seed);
}
function drawDivision(division) {
  if (division.error) return say("division", "", `${division.error}. The picture shows the settings before.`);
  clear("division-pictures");
  const { train, other, redraws } = division, skew = heterogeneity(train, other), [first, second] = scheme().parts;
  const most = (counts) => Math.max(...counts.flat());
  for (const [part, counts] of [[first, train], [second, other]]) {
    bubbles("division-pictures", `${part[0].toUpperCase()}${part.slice(1)}, largest disc ${most(counts)}`, counts, most(counts), part);
  }
  const sizes = train.map(sum), top = niceTop(Math.max(...sizes));
  const p = new Panel("division-pictures", `Each client: ${first} (grey), ${second} (orange)`, { x: [-0.6, train.length - 0.4], y: [0, top] });
  p.axes(everyFew(train.length, 20), ticksTo(top), "client", "images");
  train.forEach((own, k) => {
    p.bar(k - 0.2, 0.18, 0, sum(own), FAINT, QUIET, `client ${k}: ${sum(own)} ${first}`);
    p.bar(k + 0.2, 0.18, 0, sum(other[k]), ORANGE, ORANGE, `client ${k}: ${sum(other[k])} ${second}`);
  });
  say("division", `${train.length} clients. Distance of a client's class mix from the whole: ${skew.total_variation.toFixed(3)} (total variation, 0 to 1), `
    + `between its own ${first} and ${second}: ${skew.own_variation.toFixed(3)}; ${skew.classes_per_client.toFixed(1)} classes per client; `
    + `smallest client ${skew.smallest.join(" + ")} images.`,
  redraws ? `${redraws} draws were thrown away because a client had too few images.` : "");
  return { ...skew, sizes, redraws };
}

const PROBABILITIES = [0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 0.99, 0.999, 0.9999, 0.999999];
const NATS = [1e-8, 1e-6, 1e-4, 1e-3, 0.01, 0.03, 0.1, 0.3, 1, 2, 4];
function spaced(marks, low, high, atMost) {
  const kept = [];
  for (const [v, text] of marks) if (low <= v && v <= high && (!kept.length || v - kept.at(-1)[0] >= (high - low) / atMost)) kept.push([v, text]);
  return kept;
}
function span(values) {
  const low = Math.min(...values), high = Math.max(...values), room = 0.05 * (high - low) + 1e-3;
  return [low - room, high + room];
}
function drawThresholds(held, before) {
  clear("thresholds-pictures");
  const k = state.client, own = held[k], phase = labelPhase(held, state, "paper", null), filtered = phase.filtered[k];
  const kept = filtered.kept, was = before ? filterConfident(own, before.q_conf, before.q_ent).kept : kept;
  const odds = filtered.odds.map((v) => clamp(v, -4, 37)), nats = filtered.nats.map((v) => Math.log10(Math.max(v, 1e-9)));
  const p = new Panel("thresholds-pictures", `Client ${k}: every image, and what the filters keep`, { height: 330, bottom: 40, left: 52, x: span(odds), y: span(nats) });
  const x = clamp(filtered.tau1_odds, ...p.xs), y = clamp(Math.log10(Math.max(filtered.tau2, 1e-9)), ...p.ys);
  p.add("rect", { x: p.x(x), y: p.y(y), width: p.x(p.xs[1]) - p.x(x), height: p.y(p.ys[0]) - p.y(y), fill: "#e6f1f7" });
  p.axes(spaced(PROBABILITIES.map((v) => [Math.log(v / (1 - v)), String(v)]), ...p.xs, 7), spaced(NATS.map((v) => [Math.log10(v), String(v)]), ...p.ys, 8),
    "confidence (largest probability)", "entropy (nats)", "");
  p.dash(p.x(x), p.x(x), p.top, p.top + p.height);
  p.dash(p.left, p.left + p.width, p.y(y), p.y(y));
  own.forEach((n, i) => {
    const [kind, color, size] = kept[i] ? (was[i] ? ["o", BLUE, 3] : ["^", GREEN, 5]) : was[i] ? ["x", ORANGE, 3.5] : ["O", QUIET, 2.6];
    p.mark(odds[i], nats[i], kind, color, size, `predicted ${data.names[images[n].best]}, true ${data.names[true_[n]]}`);
  });
  p.write(p.left + p.width, p.top + 8, `τ1: confidence > ${short(filtered.tau1)}`, { "text-anchor": "end" });
  p.write(p.left + p.width, p.top + 21, `τ2: entropy < ${short(filtered.tau2)} nats`, { "text-anchor": "end" });
  legend(p, [["kept", BLUE, BLUE], ["left out", "white", QUIET], ["▲ gained by this move", GREEN, GREEN], ["× lost by it", ORANGE, ORANGE]]);
  const trueCounts = zeros(C), share = (counts) => counts.map((v) => 100 * v / Math.max(sum(counts), 1));
  own.forEach((n) => { trueCounts[true_[n]]++; });
  const { selected, right } = phase.chosen[k], quota = phase.quota[k], counts = filtered.counts;
  const m = bars("thresholds-pictures", "Classes of this client", "% of images", [
    { name: "true", values: share(trueCounts), fill: FAINT, stroke: QUIET }, { name: "estimated", values: share(counts), fill: BLUE, stroke: BLUE },
  ], niceTop(Math.max(...share(trueCounts), ...share(counts))));
  legend(m, [["true", FAINT, QUIET], ["estimated from the kept", BLUE, BLUE]]);
  const q = bars("thresholds-pictures", "By predicted class", "images", [
    { name: "kept", values: counts, fill: "white", stroke: INK }, { name: "selected, right", values: right, fill: BLUE, stroke: BLUE },
  ], niceTop(Math.max(...counts, ...quota, ...selected)));
  selected.forEach((v, c) => { if (v > right[c]) q.bar(c + 0.18, 0.17, right[c], v, ORANGE, ORANGE, `${data.names[c]}: selected, wrong ${v - right[c]}`); });
  quota.forEach((v, c) => { if (v) q.add("line", { x1: q.x(c), x2: q.x(c + 0.38), y1: q.y(v), y2: q.y(v), stroke: INK, "stroke-width": 2 }, `${data.names[c]}: quota ${v}`); });
  legend(q, [["kept", "white", INK], ["selected, right", BLUE, BLUE], ["wrong", ORANGE, ORANGE], ["— quota", INK, INK]]);
  const hits = held.map((of, i) => {
    const f = phase.filtered[i], r = of.map((n) => images[n].best === true_[n]);
    return { predicted: sum(r) / of.length, kept: sum(r.filter((_, j) => f.kept[j])) / sum(f.kept), selected: sum(phase.chosen[i].right) / sum(phase.chosen[i].selected) };
  });
  const a = new Panel("thresholds-pictures", "Right labels (%): this client (bars), mean over clients (diamonds)", { height: 150, left: 140, right: 14, bottom: 22, x: [0, 100], y: [2.55, -0.55] });
  a.axes([0, 20, 40, 60, 80, 100].map((v) => [v, String(v)]), Object.values(STAGES).map((text, i) => [i, text]), "", "", "x");
  Object.keys(STAGES).forEach((stage, i) => {
    const there = hits.map((h) => h[stage]).filter((v) => !Number.isNaN(v)), mean = sum(there) / there.length;
    a.add("rect", { x: a.x(0), y: a.y(i - 0.31), width: a.x(100 * (hits[k][stage] || 0)) - a.x(0), height: a.y(i + 0.31) - a.y(i - 0.31), fill: [FAINT, QUIET, BLUE][i] }, `${STAGES[stage]}: ${one(hits[k][stage])} %`);
    a.mark(100 * mean, i, "D", INK, 5, `mean over clients: ${one(mean)} %`);
  });
  const gained = sum(kept.map((now, i) => now && !was[i])), lost = sum(kept.map((now, i) => !now && was[i])), distance = halfDistance(mix(trueCounts), mix(counts));
  say("thresholds", `Client ${k} keeps ${sum(kept)} of ${own.length} images (${gained} gained, ${lost} lost by this move), ${one(hits[k].kept)} % of them with the right label; `
    + `the server asks for ${sum(quota)}, it finds ${sum(selected)}, ${one(hits[k].selected)} % right. Distance of the estimated from the true classes: ${distance.toFixed(2)} (total variation, 0 to 1).`,
  filtered.fallback ? "No image passes both filters: the most confident share is kept instead." : "");
  return {
    kept: sum(kept), images: own.length, gained, lost, quota: sum(quota), selected: sum(selected), label_accuracy: hits[k].selected, kept_accuracy: hits[k].kept,
    kept_per_class: counts, estimate_distance: distance, thresholds: [filtered.tau1, filtered.tau2], fallback: filtered.fallback,
  };
}

function drawAllocation(held) {
  clear("allocation-pictures");
  const added = { client: state.client, label: state.label, images: state.added }, phase = labelPhase(held, state, state.mode, added);
  const kept = columns(phase.counts), asked = columns(phase.quota), found = columns(phase.chosen.map((one_) => one_.selected)), budget = phase.per_class;
  const top = Math.max(...phase.counts.flat(), ...phase.quota.flat());
  bubbles("allocation-pictures", "Before: images that passed the filters", phase.counts, top, "kept");
  bubbles("allocation-pictures", "After: images that the server asks for", phase.quota, top, "asked for");
  const highest = niceTop(1.12 * Math.max(...kept, ...asked, ...found, budget ?? 0));
  const p = bars("allocation-pictures", budget === null ? "All clients together" : `All clients together: each class against M = ${short(budget)}`, "images", [
    { name: "kept", values: kept, fill: (v) => (budget !== null && v > budget ? [ORANGE, ORANGE] : [FAINT, QUIET]) },
    { name: "asked for", values: asked, fill: "white", stroke: INK }, { name: "found", values: found, fill: BLUE, stroke: BLUE },
  ], highest, 250);
  if (budget !== null) p.dash(p.left, p.left + p.width, p.y(budget), p.y(budget));
  legend(p, [["kept, over-fed", ORANGE, ORANGE], ["kept", FAINT, QUIET], ["asked for", "white", INK], ["found", BLUE, BLUE]]);
  const gaps = budget === null ? [] : kept.map((v, c) => [data.names[c], v - budget]);
  const over = gaps.filter(([, gap]) => gap > 0).sort((a, b) => b[1] - a[1]).map(([name]) => name);
  const under = gaps.filter(([, gap]) => gap < 0).sort((a, b) => a[1] - b[1]).map(([name]) => name);
  const unseen = data.names.filter((_, c) => !kept[c]);
  say("allocation", budget === null ? `Every client keeps its own counts, ${sum(kept)} images; no class has a budget.`
    : `M = ${Number(budget.toPrecision(4))} images per class. Over-fed by the filters: ${listed(over)}; under-fed: ${listed(under)}. The server asks for ${sum(asked)} images, the clients find ${sum(found)}.`,
  (unseen.length && budget !== null ? `No client kept an image of ${listed(unseen)}: the formula is 0/0 there.` : "")
    + (phase.filtered.some((f) => f.fallback) ? " At least one client's filters kept nothing, and its most confident images stand in." : ""));
  return { kept, quota: asked, selected: found, per_class: budget, over_fed: over, under_fed: under, mode: state.mode };
}

function thumbnail(view) {
  const canvas = document.createElement("canvas"), side = data.views.side, context = canvas.getContext("2d");
  [canvas.width, canvas.height] = [side, side];
  const image = context.createImageData(side, side);
  views.pixels[view.n].forEach((v, i) => image.data.set([v, v, v, 255], 4 * i));
  context.putImageData(image, 0, 0);
  const box = document.createElement("figure"), picture = document.createElement("img"), words = document.createElement("figcaption"), bar = document.createElement("span");
  const truth = data.names[views.true[view.n]];
  Object.assign(picture, { src: canvas.toDataURL(), alt: `weak view of a ${truth}`, width: 56, height: 56 });
  bar.style.background = !view.used ? FAINT : `linear-gradient(90deg, ${view.l === view.g ? QUIET : ORANGE} ${100 * view.share}%, ${BLUE} ${100 * view.share}%)`;
  words.textContent = `true ${truth}${view.used ? "" : ", no label"}; local ${data.names[view.l]} ${view.cl.toFixed(2)}, global ${data.names[view.g]} ${view.cg.toFixed(2)}`;
  box.append(picture, bar, words);
  document.getElementById("kappa-views").append(box);
}
function drawKappa() {
  clear("kappa-pictures", "kappa-views");
  const batch = correctLabels(state), p = new Panel("kappa-pictures", `λ = exp(−κ ΔC) with κ = ${state.kappa.toFixed(2)}, and this batch at τ = ${state.threshold.toFixed(2)}`,
    { height: 300, x: [-0.02, 1], y: [-0.03, 1.04] });
  const tenths = [0, 0.2, 0.4, 0.6, 0.8, 1].map((v) => [v, String(v)]);
  p.axes(tenths, tenths, "discrepancy of the confidences, ΔC = |local − global|", "λ, weight of the local label");
  p.dash(p.left, p.left + p.width, p.y(0.5), p.y(0.5));
  const curve = Array.from({ length: 101 }, (_, i) => `${p.x(i / 100).toFixed(1)},${p.y(Math.exp(-state.kappa * i / 100)).toFixed(1)}`);
  p.add("polyline", { points: curve.join(" "), fill: "none", stroke: INK, "stroke-width": 1.6 });
  const groups = Object.keys(DECIDED).map((name) => batch.filter((view) => view.by === name));
  groups.flat().forEach((view) => p.mark(view.gap, view.weight, DECIDED[view.by][1], DECIDED[view.by][0], 4.6, `${view.by}: ΔC ${short(view.gap)}, λ ${short(view.weight)}`));
  const b = new Panel("kappa-pictures", "Views of the batch, by who decides their label", { height: 62, left: 0, bottom: 4, x: [0, batch.length], y: [0, 1] });
  let start = 0;
  groups.forEach((group, i) => {
    const [name, [color]] = Object.entries(DECIDED)[i];
    b.bar(start + group.length / 2, group.length / 2, 0, 1, color, "white", `${name}: ${group.length}`);
    if (group.length) b.write(b.x(start + group.length / 2), b.y(0.35), String(group.length), { "text-anchor": "middle", fill: color === FAINT ? INK : "white" });
    start += group.length;
  });
  legend(b, Object.entries(DECIDED).map(([name, [color]]) => [name, color, color]));
  const used = batch.filter((view) => view.used), true_mass = {};
  for (const name of ["local label", "corrected", "global label"]) true_mass[name] = used.length ? sum(used.map((view) => view.mass[name])) / used.length : null;
  const m = new Panel("kappa-pictures", "Mean weight of the true class in the labels (%)", { height: 140, left: 100, right: 14, bottom: 22, x: [0, 100], y: [2.55, -0.55] });
  m.axes([0, 20, 40, 60, 80, 100].map((v) => [v, String(v)]), Object.keys(true_mass).map((name, i) => [i, name]), "", "", "x");
  Object.entries(true_mass).forEach(([name, v], i) => m.add("rect", { x: m.x(0), y: m.y(i - 0.3), width: m.x(100 * (v ?? 0)) - m.x(0), height: m.y(i + 0.3) - m.y(i - 0.3), fill: [ORANGE, INK, BLUE][i] }, `${name}: ${one(v ?? 0)} %`));
  batch.slice(state.image, state.image + 7).forEach(thumbnail);
  const forGlobal = groups[4].length, disputed = groups[3].length + forGlobal;
  say("kappa", `κ = ${state.kappa.toFixed(2)}, τ = ${state.threshold.toFixed(2)}: ${used.length} of ${batch.length} views get a label; the models dispute ${disputed} where the local one is confident, `
    + `${disputed ? `${Math.round(100 * forGlobal / disputed)} % of them` : "none"} decided for the global model.`,
  used.length ? "" : "No view reaches the threshold in either model: there is no label to correct.");
  return { used: used.length, views: batch.length, disputed, for_global: forGlobal, share_for_global: disputed ? forGlobal / disputed : null, true_mass, weights: batch.map((view) => view.weight) };
}

const state = { ...data.start };
const explorer = { state, numbers: {}, set };
let fedcopl = null, drawn = null;
function showControls() {
  for (const input of document.querySelectorAll("[data-key]")) {
    const key = input.dataset.key, most = {
      level: scheme().levels.length - 1, clients: data.clients.length - 1, seed: data.seeds.length - 1, client: fedcopl.held.length - 1, label: C - 1,
      step: Math.ceil(views.local.length / data.views.batch) - 1, image: Math.min(data.views.batch, views.local.length - state.step * data.views.batch) - 1,
    }[key];
    if (most !== undefined) input.max = most;
    state[key] = typeof state[key] === "number" && input.max !== undefined && input.max !== "" ? Math.min(state[key], Number(input.max)) : state[key];
    input.value = state[key];
    if (key === "level") { input.disabled = scheme().levels.length < 2; input.parentNode.firstElementChild.textContent = scheme().symbol || "level"; }
    const shown = { level: scheme().levels[state.level], clients: data.clients[state.clients], label: data.names[state.label] }[key] ?? (typeof state[key] === "number" ? Number(state[key].toFixed(2)) : state[key]);
    const output = input.parentNode.querySelector("output");
    if (output) { output.textContent = shown; input.setAttribute("aria-valuetext", shown); }
  }
}
/** Change some settings and draw what depends on them. */
function set(changes) {
  const before = { ...state }, changed = (...keys) => !drawn || keys.some((key) => state[key] !== before[key]);
  Object.assign(state, changes);
  state.level = Math.min(state.level, scheme().levels.length - 1);
  const moved = changed("scheme", "level", "clients", "seed"), division = moved ? currentDivision() : null;
  if (division && division.held) fedcopl = division;
  showControls();
  if (division) explorer.numbers.division = drawDivision(division) ?? explorer.numbers.division;
  if (moved || changed("q_conf", "q_ent", "client")) {
    const same = drawn && !moved && drawn.client === state.client;
    explorer.numbers.thresholds = drawThresholds(fedcopl.held, same ? drawn : null);
    drawn = { q_conf: state.q_conf, q_ent: state.q_ent, client: state.client };
  }
  if (moved || changed("q_conf", "q_ent", "client", "label", "added", "mode")) explorer.numbers.allocation = drawAllocation(fedcopl.held);
  if (!explorer.numbers.kappa || changed("kappa", "threshold", "step", "image")) explorer.numbers.kappa = drawKappa();
}
document.getElementById("n-images").textContent = images.length.toLocaleString("en");
const schemes = document.querySelector("[data-key=scheme]");
for (const [name, { label }] of Object.entries(data.schemes)) schemes.append(new Option(label, name));
document.addEventListener("input", ({ target }) => {
  const key = target.dataset.key;
  if (key) set({ [key]: target.tagName === "SELECT" ? target.value : Number(target.value) });
});
set({});
