// views.js - what each tab shows. Texts reach the page only as text nodes.
const state = { tab: "overview", lang: "zh", theme: "auto" };
const word = (key) => WORDS[key][state.lang === "en" ? 0 : 1];
const both = (o) => (o ? o[state.lang === "en" ? "en" : "zh"] : "");

function h(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) e.addEventListener(key.slice(2), value);
    else if (value === true) e.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) e.setAttribute(key, value);
  }
  e.append(...children.flat(9).filter((c) => c !== null && c !== undefined && c !== false));
  return e;
}
const badge = (verdict) => h("span", { class: "v " + toneOf(verdict) }, verdict);
const kindWord = (kind) => word(kind === "none" ? "noKind" : kind);
const empty = (key) => h("p", { class: "empty" }, word(key));
const number = (n) => n.toLocaleString("en");
function duration(ms) {
  if (ms < 0) return "–";
  if (ms < 1000) return ms.toFixed(ms < 10 ? 1 : 0) + " ms";
  if (ms < 60000) return (ms / 1000).toFixed(1) + " s";
  return Math.floor(ms / 60000) + " min " + Math.round((ms % 60000) / 1000) + " s";
}
const size = (b) => (b < 1024 ? b + " B" : b < 1048576 ? (b / 1024).toFixed(1) + " KiB" : (b / 1048576).toFixed(1) + " MiB");
function table(heads, rows, options) {
  const numeric = (options && options.numeric) || [];
  const cell = (tag) => (c, i) => h(tag, { class: numeric.includes(i) ? "number" : c && c.path ? "path" : null }, c && c.path ? c.path : c);
  return h("div", { class: "scroll" }, h("table", { class: options && options.fit ? "fit" : null },
    heads && h("thead", {}, h("tr", {}, heads.map(cell("th")))), h("tbody", {}, rows.map((r) => h("tr", {}, r.map(cell("td")))))));
}
const sheet = (title, ...children) => h("section", { class: "sheet" }, title && h("h2", {}, title), children);

// ---- overview

function matrixCell(release, api, r, a) {
  const c = M.cells[r * M.apis.length + a];
  const passed = c.counts.PASSED || 0;
  return h("td", {}, h("button", { class: toneOf(c.verdict), title: c.reason || both(M.device.sentence),
    onclick: () => go({ tab: "cases", r: release.name, a: api, v: "", q: "", p: "", c: "" }) },
  h("b", {}, c.verdict), h("small", {}, `${passed}/${c.cases} · ${number(c.launches)} · ${kindWord(c.device)}`)));
}
function matrix(q) {
  const wanted = (q || "").toLowerCase();
  const apis = M.apis.map((api, a) => [api, a]).filter(([api]) => api.toLowerCase().includes(wanted)).slice(0, 2000);
  return h("div", { class: "scroll" }, h("table", { class: "matrix" },
    h("thead", {}, h("tr", {}, h("th", {}, "API"), M.releases.map((r) => h("th", {}, r.name, h("small", {}, r.branch))))),
    h("tbody", {}, apis.map(([api, a]) => h("tr", {}, h("th", { class: "api", scope: "row" }, api),
      M.releases.map((r, i) => matrixCell(r, api, i, a)))))));
}
const PLACE_TABS = { environment: "environments", results: "overview", cases: "cases", scope: "patches", plan: "patches",
  docs: "docs", audit: "audit", branches: "patches" };
function checklist(links) {
  return h("ul", { class: "checks" }, M.checklist.map((c) => h("li", { class: c.ticked ? "on" : "" },
    h(links ? "a" : "span", { href: links ? "#" + hashOf({ ...state, tab: PLACE_TABS[c.place] }) : null, title: c.id },
      h("span", { class: "box" }, c.ticked ? "✓" : ""), h("span", {}, h("span", { class: "claim" }, both(c.text)), " ",
        h("small", {}, `(${word("fact")}: ${c.fact})`))))));
}
function failures(limit) {
  const bad = [];
  let total = 0;
  for (let i = 0; i < COUNT; i++) if (verdictOf(i) !== "PASSED" && ++total <= limit) bad.push(i);
  if (!total) return empty("allPassed");
  return [table([word("verdict"), word("release"), "API", word("name"), word("reason")], bad.map((i) => [badge(verdictOf(i)),
    textOf("release", i), { path: textOf("api", i) }, h("a", { href: "#" + hashOf({ ...state, tab: "cases", c: String(i) }) }, textOf("name", i)),
    textOf("reason", i) || textOf(state.lang, i)])), total > limit ? h("p", { class: "soft" }, `${number(total - limit)} ${word("more")}`) : null];
}
function tiles() {
  const s = M.summary, ticked = M.checklist.filter((c) => c.ticked).length, passed = countVerdicts().get(0) || 0;
  const took = M.run.finished ? Date.parse(M.run.finished) - Date.parse(M.run.started) : -1;
  const tile = (value, label, tone) => h("div", { class: "tile " + (tone || "") }, h("b", {}, value), h("span", {}, label));
  return h("div", { class: "tiles" }, tile(`${s.passed} / ${s.cells}`, word("cellsPassed"), s.ok ? "good" : "bad"),
    tile(`${number(passed)} / ${number(COUNT)}`, word("casesPassed"), passed === COUNT ? "good" : "warn"),
    tile(kindWord(M.device.kind), word("deviceKind")), tile(`${ticked} / ${M.checklist.length}`, word("boxes")), tile(duration(took), word("took")));
}
function overview() {
  return [h("p", { class: "banner " + M.device.kind }, both(M.device.sentence)), tiles(),
    sheet(word("matrix"), M.apis.length > 12 ? h("div", { class: "bar" }, h("input", { type: "search", placeholder: "API",
      value: state.m || "", oninput: (e) => { state.m = e.target.value; remember(); document.querySelector(".matrix").parentNode.replaceWith(matrix(state.m)); } })) : null,
    matrix(M.apis.length > 12 ? state.m : "")), sheet(word("checklist"), checklist(true)), sheet(word("notPassed"), failures(50))];
}

// ---- one case

const pair = (rows) => table(null, rows.filter(([, v]) => v !== null && v !== undefined), { fit: true });
function sides(result) {
  if (!result) return null;
  const cpu = result.cpu || {}, device = result.device || {};
  const shown = (v) => (v === undefined || v === null ? "–" : typeof v === "string" ? v : Array.isArray(v) ? v.join("; ") || "–" : JSON.stringify(v));
  return [table(["", word("cpu"), word("device")], [[word("time"), duration(cpu.ms ?? -1), duration(device.ms ?? -1)],
    [word("exception"), shown(cpu.exception), shown(device.exception)], [word("claims"), shown(cpu.claims), shown(device.claims)]]),
  pair([[word("values"), result.compared === undefined ? null : number(result.compared)],
    [word("differences"), (result.differences || []).length ? h("ul", {}, result.differences.map((d) => h("li", {}, shown(d)))) : word("noDifference")]])];
}
function operators(proof) {
  const rows = Object.entries((proof && proof.operators) || {}).sort((a, b) => b[1] - a[1]);
  if (!rows.length) return null;
  return [h("h3", {}, `${word("operators")} (${number(proof.launches || 0)})`), table(null, rows.map(([name, n]) => [{ path: name }, number(n),
    h("div", { class: "meter" }, h("i", { style: `width:${Math.max(3, (100 * n) / rows[0][1])}%` }))]), { numeric: [1] })];
}
function proofRows(proof) {
  if (!proof) return null;
  return [h("h3", {}, word("proof")), pair([[word("device"), proof.device_name], [word("memory"), proof.memory_peak === undefined ? null : size(proof.memory_peak)],
    [word("made"), proof.made], [word("onDevice"), proof.on_device], [word("fallbacks"), (proof.fallbacks || []).join(", ") || word("noDifference")]])];
}
function elsewhere(i) {
  const same = [];
  for (let k = 0; k < COUNT; k++) if (C.api[k] === C.api[i] && C.name[k] === C.name[i]) same.push(k);
  return h("div", { class: "others" }, same.map((k) => h("button", { class: "v " + toneOf(verdictOf(k)), "aria-pressed": String(k === i),
    onclick: () => go({ c: String(k) }) }, `${textOf("release", k)} ${verdictOf(k)}`)));
}
function caseHead(i) {
  return [h("button", { class: "close", onclick: () => go({ c: "" }) }, word("close")), h("h2", {}, textOf("name", i)),
    h("p", { class: "mono soft" }, textOf("api", i)), h("p", {}, badge(verdictOf(i)), " ", textOf("reason", i)),
    h("p", { class: "soft" }, textOf(state.lang, i)), h("h3", {}, word("elsewhere")), elsewhere(i)];
}
function caseBody(i, d) {
  const result = d.facts && d.facts.result;
  return [pair([[word("release"), textOf("release", i)], [word("direction"), word(textOf("passes", i) === "backward" ? "backward" : "forward")],
    [word("device"), word(KINDS[C.kind[i]])], [word("started"), d.started || "–"], [word("attempts"), d.attempts], [word("time"), duration(C.ms[i] / 10)]]),
  d.facts ? [h("h3", {}, word("compare")), sides(result), operators(result && result.proof), proofRows(result && result.proof)] : empty("notExecuted"),
  result && (result.warnings || []).length ? [h("h3", {}, word("warnings")), h("ul", {}, result.warnings.map((w) => h("li", {}, String(w))))] : null,
  d.output ? [h("h3", {}, word("output")), h("pre", { class: "output" }, d.output)] : null,
  d.stack ? [h("h3", {}, word("stack")), h("pre", { class: "output" }, d.stack)] : null];
}
async function showCase(i) {
  const box = document.getElementById("detail");
  if (!(i >= 0 && i < COUNT)) { box.hidden = true; box.replaceChildren(); return; }
  box.hidden = false;
  box.replaceChildren(...h("div", {}, caseHead(i)).childNodes, h("p", { class: "soft", id: "wait" }, word("loading")));
  const d = await detailsOf(i);
  const wait = document.getElementById("wait");
  if (wait && String(i) === state.c) wait.replaceWith(...h("div", {}, caseBody(i, d)).childNodes);
}

// ---- patches

const KEYWORDS = /^(False|None|True|and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|from|global|if|import|in|is|lambda|nonlocal|not|or|pass|raise|return|try|while|with|yield)$/;
const TOKENS = /(#.*$)|("""|'''|[rbfuRBFU]{0,2}"(?:\\.|[^"\\])*"|[rbfuRBFU]{0,2}'(?:\\.|[^'\\])*')|(@?[A-Za-z_]\w*)|(\b\d[\w.]*)|([^\w#"'@]+|.)/g;
function python(line) {
  return Array.from(line.matchAll(TOKENS), ([all, comment, string, name, digits]) => {
    const kind = comment ? "c" : string ? "s" : digits ? "m" : name && (KEYWORDS.test(name) || name[0] === "@") ? "k" : null;
    return kind ? h("span", { class: kind }, all) : all;
  });
}
function diffRow(kind, old, fresh, text) {
  return h("div", { class: "d " + kind }, h("span", { class: "n" }, old), h("span", { class: "n" }, fresh), h("span", { class: "t" }, text));
}
function diff(text) {
  let a = 0, b = 0;
  const rows = text.replace(/\n$/, "").split("\n").map((line) => {
    const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)/.exec(line);
    if (hunk) { a = +hunk[1]; b = +hunk[2]; return diffRow("hunk", "", "", line); }
    if (!a || /^(diff |index |--- a\/|--- \/dev|\+\+\+ )/.test(line)) return diffRow("file", "", "", line);
    if (line[0] === "+") return diffRow("add", "", String(b++), ["+", python(line.slice(1))]);
    if (line[0] === "-") return diffRow("del", String(a++), "", ["-", python(line.slice(1))]);
    return diffRow("", String(a++), String(b++), [" ", python(line.slice(1))]);
  });
  return h("div", { class: "diff" }, h("div", { class: "rows" }, rows));
}
function editRows(file) {
  return (file.edits || []).length ? h("details", {}, h("summary", {}, `${word("edits")} (${file.edits.length})`), table([word("line"), word("where"), word("rule"),
    word("before"), word("after")], file.edits.map((e) => [e.line, { path: e.scope }, e.rule, { path: e.before }, { path: e.after }]), { numeric: [0] })) : null;
}
function patchFile(release, file) {
  const text = (M.patches[release] || {})[file.patch];
  return [h("h3", { class: "mono" }, file.patch), file.kept ? h("p", { class: "soft" }, `${file.kept} ${word("kept")}`) : null, editRows(file),
    (file.left || []).length ? table([word("line"), word("where"), word("left")], file.left.map((l) => [l.line, { path: l.scope }, l.reason]), { numeric: [0] }) : null,
    text ? diff(text) : null];
}
function coverageRows(scan) {
  const tests = (scan && scan.tests) || [];
  return tests.length ? h("details", {}, h("summary", {}, `${word("coverage")} (${tests.length})`), table(["API", word("file"), word("test"), word("coverage"), word("where")],
    tests.map((t) => [{ path: t.api }, { path: `${t.file}:${t.row}` }, { path: t.test }, word(t.coverage), { path: t.path || (t.sites || []).join(", ") }]))) : null;
}
function releasePicker(current) {
  return h("div", { class: "bar", role: "group" }, M.releases.map((r) => h("button", { class: "chip hard", "aria-pressed": String(r.name === current),
    onclick: () => go({ r: r.name }) }, `${r.name}`)));
}
const chosenRelease = () => (M.releases.some((r) => r.name === state.r) ? state.r : (M.releases[0] || {}).name);
function reviewRows(release) {
  const b = factsOf("branch", release);
  return b ? pair([[word("branch"), b.name], [word("commit"), b.commit], [word("base"), b.base]]) : null;
}
function suiteRows(suite) {
  if (!suite) return null;
  const rows = suite.rows.map((t) => [{ path: t.test }, badge(t.cpu || "–"), badge(t.device), number(t.launches), t.reason]);
  return h("details", {}, h("summary", {}, `${word("suite")} (${suite.passed} / ${suite.tests} PASSED)`), table([word("test"), word("original"), word("adapted"),
    word("launches"), word("reason")], rows, { numeric: [3] }));
}
function patchesOf(release) {
  const adapt = factsOf("adapt", release);
  return [reviewRows(release), coverageRows(factsOf("scan", release)), suiteRows(factsOf("suite", release)), adapt && adapt.files.length ? adapt.files.map((f) => patchFile(release, f)) : empty("noPatches")];
}
const patches = () => [releasePicker(chosenRelease()), sheet(null, patchesOf(chosenRelease()))];

// ---- audit, docs, environments, timings

function auditOf(release) {
  const fact = factsOf("audit", release);
  const rows = fact ? fact.patches.flatMap((p) => p.findings.map((f) => [f, p.patch])) : [];
  if (!fact) return empty("noAudit");
  if (!rows.length) return empty("clean");
  const tone = { error: "bad", warning: "warn", note: "mute" };
  return table([word("severity"), word("rule"), word("file"), word("message"), ""], rows.map(([f, patch]) => [h("span", { class: "v " + tone[f.severity] }, f.severity),
    f.rule, { path: `${patch}:${f.line}` }, [f.message, h("div", { class: "soft" }, both(f.mend))], word(f.inherited ? "inherited" : "fresh")]));
}
const audit = () => M.releases.map((r) => sheet(`${r.name} · ${r.branch}`, auditOf(r.name)));
function docsOf(release) {
  const fact = factsOf("docs", release);
  const tone = { supported: "good", unclear: "warn", missing: "bad", unsupported: "bad", contradictory: "bad" };
  return fact ? table(["API", word("verdict"), word("file"), word("restrictions")], fact.rows.map((d) => [{ path: d.api }, h("span", { class: "v " + tone[d.verdict] }, d.verdict),
    { path: d.file ? `${d.file}:${d.line}` : "–" }, d.restrictions || "–"])) : empty("noDocs");
}
const docs = () => M.releases.map((r) => sheet(`${r.name} · ${r.branch}`, docsOf(r.name)));

function packages(lock) {
  try { return JSON.parse(lock).packages || []; } catch (_) { return []; }
}
function environment(r) {
  const wheels = packages(r.lock);
  return sheet(`${r.name} · ${r.branch}`, r.error ? h("p", { class: "bad" }, r.error) : null, pair([["torch", `${r.found.torch || "–"} (${r.torch})`],
    ["torch_npu", `${r.found.torch_npu || "–"} (${r.torch_npu})`], ["Python", r.python], [word("device"), `${r.device.name || "–"} (${kindWord(r.device.kind)})`],
    [word("library"), { path: r.device.softnpu || r.device.ascendcl || "–" }], [word("lock"), { path: r.lock_sha256 || "–" }]]),
  wheels.length ? h("details", {}, h("summary", {}, `${word("packages")} (${wheels.length})`), table([word("name"), word("version"), word("wheel"), "SHA-256"],
    wheels.map((p) => [p.name, p.version, { path: p.wheel }, { path: p.sha256 }]))) : null,
  r.lock ? h("details", {}, h("summary", {}, word("lock")), h("pre", { class: "output" }, r.lock)) : null);
}
function machine() {
  return sheet(word("machine"), pair([[word("os"), M.host.os], [word("machine"), `${M.host.machine}, ${M.host.cpus} CPU, ${M.host.kernel}`], [word("command"), { path: M.run.command }],
    [word("tolerance"), { path: Object.entries(M.tolerances).map(([t, [r, a]]) => `${t} ${r} / ${a}`).join("; ") }]]));
}
const environments = () => [machine(), M.releases.map(environment)];

function timings() {
  const order = Array.from({ length: COUNT }, (_, i) => i).sort((a, b) => C.ms[b] - C.ms[a]).slice(0, 40);
  const sums = M.releases.map((r) => ({ name: r.name, cpu: 0, device: 0, ms: 0, n: 0 }));
  const at = new Map(M.releases.map((r, k) => [C.texts.indexOf(r.name), k]));
  for (let i = 0; i < COUNT; i++) {
    const s = sums[at.get(C.release[i])];
    if (s) { s.n++; s.ms += C.ms[i] / 10; s.cpu += Math.max(0, C.cpu[i]) / 10; s.device += Math.max(0, C.device[i]) / 10; }
  }
  const top = order.length ? C.ms[order[0]] : 1;
  return [sheet(word("perRelease"), table([word("release"), word("cases"), word("cpu"), word("device"), word("total")], sums.map((s) => [s.name, number(s.n), duration(s.cpu),
    duration(s.device), duration(s.ms)]), { numeric: [1, 2, 3, 4] })), sheet(word("slowest"), table([word("release"), "API", word("name"), word("cpu"), word("device"), word("total"), ""],
    order.map((i) => [textOf("release", i), { path: textOf("api", i) }, h("a", { href: "#" + hashOf({ ...state, tab: "cases", c: String(i) }) }, textOf("name", i)), duration(C.cpu[i] / 10),
      duration(C.device[i] / 10), duration(C.ms[i] / 10), h("div", { class: "meter" }, h("i", { style: `width:${(100 * C.ms[i]) / (top || 1)}%` }))]), { numeric: [3, 4, 5] }))];
}

// ---- paper: everything that fits on it

function paper() {
  return [h("p", {}, both(M.device.sentence)), sheet(word("matrix"), matrix("")), sheet(word("checklist"), checklist(false)), sheet(word("notPassed"), failures(500)),
    M.releases.map((r) => [sheet(`${word("patches")} ${r.name}`, patchesOf(r.name)), sheet(`${word("audit")} ${r.name}`, auditOf(r.name)), sheet(`${word("docs")} ${r.name}`, docsOf(r.name))]),
    environments()];
}
