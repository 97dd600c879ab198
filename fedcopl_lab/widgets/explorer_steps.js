"use strict";
// The papers' formulas, as fedcopl_lab computes them; tests/browser/test_explorer_page.py compares the numbers.
const data = JSON.parse(document.getElementById("data").textContent);
const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
const floats = (text) => new Float32Array(bytes(text).buffer);
const sum = (values) => values.reduce((a, b) => a + b, 0);
const zeros = (n) => new Array(n).fill(0);
const C = data.names.length;
const true_ = bytes(data.true);
const columns = (rows) => rows[0].map((_, c) => sum(rows.map((row) => row[c])));

/** Rows of a flat array. */
function rowsOf(values, width) {
  return Array.from({ length: values.length / width }, (_, n) => Array.from(values.subarray(n * width, (n + 1) * width)));
}

/** Largest class, log(p / (1 - p)) of it, entropy in nats. */
function readLogits(z) {
  const top = Math.max(...z), best = z.indexOf(top);
  const logsumexp = (values) => { const m = Math.max(...values); return m + Math.log(sum(values.map((v) => Math.exp(v - m)))); };
  const norm = logsumexp(z);
  return {
    best, odds: top - logsumexp(z.filter((_, c) => c !== best)),
    nats: -sum(z.map((v) => Math.exp(v - norm) * (v - norm))),
  };
}
const images = rowsOf(floats(data.logits), C).map(readLogits);

function quantile(values, level) {
  const ordered = [...values].sort((a, b) => a - b), place = level * (ordered.length - 1), below = Math.floor(place);
  const low = ordered[below], high = ordered[Math.min(below + 1, ordered.length - 1)];
  return place === below || low === high ? low : low + (place - below) * (high - low);
}

/** Who holds which training image, and the class counts of both parts, [K][C]. */
function divisionOf(scheme, level, clients, seed) {
  const found = data.divisions[`${scheme}|${level}|${clients}|${seed}`];
  if (found.error) return { error: found.error };
  const owners = found.owner ? [...found.owner].map((c) => parseInt(c, 36)) : null;
  const held = owners && Array.from({ length: clients }, (_, k) => owners.flatMap((own, n) => (own === k ? [n] : [])));
  const counted = held && held.map((own) => own.reduce((counts, n) => (counts[true_[n]]++, counts), zeros(C)));
  const train = counted || rowsOf(bytes(found.train), C);
  return { held, train, other: rowsOf(bytes(found.other), C), redraws: found.redraws };
}

const halfDistance = (a, b) => sum(a.map((v, c) => Math.abs(v - b[c]))) / 2;
const mix = (counts) => counts.map((v) => v / sum(counts));

/** How different the clients are. */
function heterogeneity(train, other) {
  const whole = mix(columns(train)), tested = train.map((_, k) => k).filter((k) => sum(other[k]) > 0);
  return {
    total_variation: sum(train.map((own) => halfDistance(mix(own), whole))) / train.length,
    own_variation: tested.length ? sum(tested.map((k) => halfDistance(mix(train[k]), mix(other[k])))) / tested.length : 0,
    classes_per_client: sum(train.map((own) => own.filter((v) => v > 0).length)) / train.length,
    smallest: [Math.min(...train.map(sum)), Math.min(...other.map(sum))],
  };
}

/** FedCoPL Eq. 2: one client's images above τ1 in confidence and below τ2 in entropy. */
function filterConfident(own, qConf, qEnt) {
  const odds = own.map((n) => images[n].odds), nats = own.map((n) => images[n].nats);
  const tau1 = quantile(odds, qConf), tau2 = quantile(nats, 1 - qEnt);
  const kept = own.map((_, i) => odds[i] > tau1 && nats[i] < tau2), fallback = !kept.includes(true);
  if (fallback) {
    const share = Math.max(1, Math.ceil(Number(((1 - qConf) * own.length).toFixed(9))));
    own.map((_, i) => i).sort((a, b) => odds[b] - odds[a]).slice(0, share).forEach((i) => { kept[i] = true; });
  }
  const counts = zeros(C);
  own.forEach((n, i) => { if (kept[i]) counts[images[n].best]++; });
  return { kept, counts, fallback, tau1: 1 / (1 + Math.exp(-tau1)), tau2, odds, nats, tau1_odds: tau1 };
}

/** FedCoPL Eq. 3: every class gets the same budget M, split by the clients' counts. */
function allocate(counts, mode, nTrain) {
  const seen = columns(counts), total = sum(seen), K = counts.length;
  if (mode === "none") return { quota: counts.map((own) => [...own]), per_class: null };
  const budget = mode === "paper" ? total / C : Math.ceil(total / C);
  const unseen = mode === "paper" ? 0 : Math.ceil(nTrain / (4 * C * K));
  const share = (u, c) => (mode === "paper"
    ? Math.floor((u * total + seen[c] * C - 1) / (seen[c] * C))
    : Math.ceil(Math.fround(Math.fround(u / seen[c]) * budget)));
  return { quota: counts.map((own) => own.map((u, c) => (seen[c] ? share(u, c) : unseen))), per_class: budget };
}

/** The quota of most probable images among those predicted as each class: how many, and how many are right. */
function selectTop(own, quota) {
  const selected = zeros(C), right = zeros(C);
  quota.forEach((wanted, c) => {
    const pool = own.filter((n) => images[n].best === c).sort((a, b) => images[b].odds - images[a].odds);
    const chosen = pool.slice(0, wanted);
    selected[c] = chosen.length;
    right[c] = chosen.filter((n) => true_[n] === c).length;
  });
  return { selected, right };
}

/** A whole label phase of all clients (FedCoPL Sec. 3.3); `added` changes one uploaded count. */
function labelPhase(held, s, mode, added) {
  const filtered = held.map((own) => filterConfident(own, s.q_conf, s.q_ent));
  const counts = filtered.map((one) => [...one.counts]);
  if (added) counts[added.client][added.label] += added.images;
  const allocation = allocate(counts, mode, sum(held.map((own) => own.length)));
  return { filtered, counts, ...allocation, chosen: held.map((own, k) => selectTop(own, allocation.quota[k])) };
}

const views = {
  local: rowsOf(floats(data.views.local), C), global: rowsOf(floats(data.views.global), C),
  true: bytes(data.views.true), pixels: rowsOf(bytes(data.views.pixels), data.views.side ** 2),
};
function softmax(z) {
  const top = Math.max(...z), e = z.map((v) => Math.exp(v - top)), norm = sum(e);
  return e.map((v) => v / norm);
}

/** SAGE Eqs. 1-6: who decides each view's label, and with which weight. */
function correctLabels(s) {
  const size = data.views.batch, here = views.local.map((_, n) => n).slice(s.step * size, (s.step + 1) * size);
  return here.map((n) => {
    const local = softmax(views.local[n]), global = softmax(views.global[n]);
    const cl = Math.max(...local), cg = Math.max(...global), l = local.indexOf(cl), g = global.indexOf(cg);
    const sure = Math.fround(cl) >= Math.fround(s.threshold), used = sure || Math.fround(cg) >= Math.fround(s.threshold);
    const gap = Math.abs(cl - cg), weight = Math.exp(-s.kappa * gap), share = sure ? weight : 0;
    const by = !used ? "no label" : l === g ? "both say the same" : !sure ? "global model alone"
      : weight >= 0.5 ? "disputed, local label leads" : "disputed, global label leads";
    const rightness = (lambda) => (sure ? lambda : 0) * (l === views.true[n]) + (1 - (sure ? lambda : 0)) * (g === views.true[n]);
    return {
      n, l, g, cl, cg, gap, weight, used, by, share: l === g ? Number(used) : share,
      mass: { "local label": rightness(1), corrected: rightness(weight), "global label": rightness(0) },
    };
  });
}
