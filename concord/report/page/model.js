// model.js - the data of the page: columns by number, text search, details unpacked when they are needed.
const readJson = (id) => JSON.parse(document.getElementById(id).textContent);
const M = readJson("model");
const C = readJson("columns");
const COUNT = C.verdict.length;
const KINDS = ["noKind", "software", "hardware"];
const TONES = {
  PASSED: "good", XFAIL: "mute", SKIPPED: "mute", "NOT RUN": "mute", XPASS: "warn", FLAKY: "warn", "NO PROOF": "warn",
  FAILED: "bad", ERROR: "bad", TIMEOUT: "hard", CRASHED: "hard",
};

const textOf = (column, i) => C.texts[C[column][i]];
const verdictOf = (i) => M.verdicts[C.verdict[i]].name;
const toneOf = (verdict) => TONES[verdict] || "bad";
const factsOf = (step, release) => (M.steps[step] || {})[release || ""];

// One lower-case text a case, made once: a filter is then one pass of includes().
let hay = null;
function haystack() {
  if (hay) return hay;
  const lower = C.texts.map((t) => t.toLowerCase());
  hay = new Array(COUNT);
  for (let i = 0; i < COUNT; i++) {
    hay[i] = [lower[C.release[i]], lower[C.api[i]], lower[C.name[i]], lower[C.en[i]], lower[C.zh[i]], lower[C.reason[i]],
      verdictOf(i).toLowerCase()].join("\n");
  }
  return hay;
}

// Numbers of the cases that satisfy the state, in its order.
function findCases(s) {
  const words = (s.q || "").toLowerCase().split(/\s+/).filter(Boolean);
  const verdicts = s.v ? new Set(s.v.split(",")) : null;
  const release = s.r ? C.texts.indexOf(s.r) : -1, api = s.a ? C.texts.indexOf(s.a) : -1;
  const side = s.p ? C.texts.indexOf(s.p) : -1;
  const lines = words.length ? haystack() : null;
  const found = [];
  for (let i = 0; i < COUNT; i++) {
    if (s.r && C.release[i] !== release) continue;
    if (s.a && C.api[i] !== api) continue;
    if (s.p && C.passes[i] !== side) continue;
    if (verdicts && !verdicts.has(verdictOf(i))) continue;
    if (lines && !words.every((w) => lines[i].includes(w))) continue;
    found.push(i);
  }
  return sortCases(found, s.sort || "");
}

const NUMERIC = new Set(["ms", "launches", "verdict"]);
function sortCases(found, order) {
  const down = order.startsWith("-"), key = down ? order.slice(1) : order;
  if (!C[key]) return found;
  const rank = NUMERIC.has(key) ? C[key] : rankOf(key);
  found.sort((a, b) => (rank[a] - rank[b]) * (down ? -1 : 1) || a - b);
  return found;
}

// Texts compare by their place in the sorted list of texts: 50,000 rows sort without a string comparison.
let places = null;
function rankOf(key) {
  if (!places) {
    const order = C.texts.map((_, i) => i).sort((a, b) => (C.texts[a] < C.texts[b] ? -1 : 1));
    places = new Array(order.length);
    order.forEach((text, place) => { places[text] = place; });
  }
  return C[key].map((text) => places[text]);
}

const unpacked = new Map();
async function unpack(chunk) {
  const element = document.getElementById("details-" + chunk);
  const bytes = Uint8Array.from(atob(element.textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}
async function detailsOf(i) {
  const chunk = Math.floor(i / M.chunk);
  if (!unpacked.has(chunk)) unpacked.set(chunk, unpack(chunk));
  return (await unpacked.get(chunk))[i % M.chunk];
}

function countVerdicts() {
  const counts = new Map();
  for (let i = 0; i < COUNT; i++) counts.set(C.verdict[i], (counts.get(C.verdict[i]) || 0) + 1);
  return counts;
}
