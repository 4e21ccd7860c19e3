// page.js - the case list, the address, the keyboard, the start.
const TABS = { overview, cases: casesTab, patches, audit, docs, environments, timings };
const KEYS = ["tab", "q", "v", "r", "a", "p", "c", "m", "sort", "lang", "theme"];

// ---- the address keeps the state

function hashOf(s) {
  const kept = new URLSearchParams();
  for (const key of KEYS) if (s[key]) kept.set(key, s[key]);
  return kept.toString();
}
const remember = () => history.replaceState(null, "", "#" + hashOf(state));
function go(change) {
  Object.assign(state, change);
  history.pushState(null, "", "#" + hashOf(state));
  render();
}
function readAddress() {
  const kept = new URLSearchParams(location.hash.slice(1));
  for (const key of KEYS) state[key] = kept.get(key) || "";
  if (!TABS[state.tab]) state.tab = "overview";
  if (state.lang !== "en" && state.lang !== "zh") state.lang = navigator.language.startsWith("zh") ? "zh" : "en";
}

// ---- the list: only the rows that are seen exist

let found = [], at = -1, view = null;
const narrow = matchMedia("(max-width: 760px)");
const rowHeight = () => (narrow.matches ? 52 : 32);

function caseRow(position) {
  const i = found[position], verdict = verdictOf(i);
  const row = h("div", { class: "row" + (position === at ? " at" : ""), style: `top:${position * rowHeight()}px`, role: "option", "aria-selected": String(position === at),
    onclick: () => { at = position; go({ c: String(i) }); } }, h("span", { class: "r-verdict" }, badge(verdict)), h("span", { class: "r-release" }, textOf("release", i)),
  h("span", { class: "r-api mono", title: textOf("api", i) }, textOf("api", i)), h("span", { class: "r-name", title: textOf("name", i) }, textOf("name", i)),
  h("span", { class: "r-reason reason", title: textOf("reason", i) }, textOf("reason", i) || textOf(state.lang, i)), h("span", { class: "r-ms number" }, duration(C.ms[i] / 10)),
  h("span", { class: "r-launches number" }, number(C.launches[i])));
  return row;
}
function drawRows() {
  if (!view) return;
  const height = rowHeight(), first = Math.max(0, Math.floor(view.scrollTop / height) - 6);
  const last = Math.min(found.length, first + Math.ceil(view.clientHeight / height) + 12);
  const rows = [];
  for (let p = first; p < last; p++) rows.push(caseRow(p));
  const filler = h("div", { style: `height:${found.length * height}px` });
  const top = view.scrollTop;
  view.replaceChildren(filler, ...rows);
  view.scrollTop = top;
}
function fillList() {
  found = findCases(state);
  at = state.c ? found.indexOf(+state.c) : -1;
  document.getElementById("found").textContent = `${number(found.length)} ${word("of")} ${number(COUNT)}`;
  if (!found.length) view.replaceChildren(h("p", { class: "empty", style: "padding:12px" }, word("none")));
  else drawRows();
}
function scrollTo(position) {
  const height = rowHeight(), top = position * height;
  if (top < view.scrollTop) view.scrollTop = top;
  else if (top + height > view.scrollTop + view.clientHeight) view.scrollTop = top + height - view.clientHeight;
}
function move(step) {
  if (!found.length) return;
  at = Math.min(found.length - 1, Math.max(0, at + step));
  scrollTo(at);
  if (!document.getElementById("detail").hidden) { state.c = String(found[at]); remember(); showCase(found[at]); }
  drawRows();
}

function chips() {
  const chosen = new Set((state.v || "").split(",").filter(Boolean));
  return [...countVerdicts()].sort((a, b) => a[0] - b[0]).map(([v, n]) => {
    const name = M.verdicts[v].name;
    return h("button", { class: "chip " + toneOf(name), "aria-pressed": String(chosen.has(name)), title: M.verdicts[v].meaning, onclick: () => {
      if (chosen.has(name)) chosen.delete(name); else chosen.add(name);
      go({ v: [...chosen].join(","), c: "" });
    } }, `${name} ${number(n)}`);
  });
}
function chooser(key, all, values) {
  return h("select", { "aria-label": word(all), onchange: (e) => go({ [key]: e.target.value, c: "" }) }, h("option", { value: "" }, word(all)),
    values.map(([value, label]) => h("option", { value, selected: state[key] === value }, label)));
}
function heads() {
  const column = (key, label, cls) => h("button", { class: cls, onclick: () => go({ sort: state.sort === key ? "-" + key : key }) },
    label + (state.sort === key ? " ↑" : state.sort === "-" + key ? " ↓" : ""));
  return h("div", { class: "row head" }, column("verdict", word("verdict")), column("release", word("release")), column("api", "API"), column("name", word("name")),
    column("reason", word("reason")), column("ms", word("ms"), "number"), column("launches", word("launches"), "number"));
}
function casesTab() {
  view = h("div", { class: "view", tabindex: "0", role: "listbox", "aria-label": word("cases"), onscroll: () => requestAnimationFrame(drawRows) });
  const search = h("input", { type: "search", id: "search", placeholder: word("search"), value: state.q || "", "aria-label": word("search"), oninput: (e) => {
    state.q = e.target.value; state.c = ""; at = -1; view.scrollTop = 0; remember(); fillList();
  } });
  return h("div", { class: "cases" }, h("div", {}, h("div", { class: "bar" }, search, chooser("r", "anyRelease", M.releases.map((r) => [r.name, r.name])),
    chooser("a", "anyApi", M.apis.map((a) => [a, a])), chooser("p", "anySide", [["forward", word("forward")], ["backward", word("backward")]])),
  h("div", { class: "bar" }, chips(), h("span", { class: "found", id: "found", role: "status" }),
    h("button", { onclick: () => go({ q: "", v: "", r: "", a: "", p: "", c: "", sort: "" }) }, word("clear"))), h("div", { class: "list" }, heads(), view)));
}

// ---- frame

const THEMES = ["auto", "light", "dark"];
const dark = matchMedia("(prefers-color-scheme: dark)");
function paint() {
  const theme = state.theme === "dark" || state.theme === "light" ? state.theme : dark.matches ? "dark" : "light";
  document.documentElement.dataset.theme = theme;
  document.documentElement.lang = state.lang === "en" ? "en" : "zh";
}
function turnTheme() {
  go({ theme: document.documentElement.dataset.theme === "dark" ? "light" : "dark" });
}
function frame() {
  const counts = { cases: COUNT };
  document.getElementById("top").replaceChildren(h("div", { class: "title" }, h("h1", {}, M.run.campaign), h("p", {}, `${M.run.started.replace("T", " ").replace("Z", "")} UTC · concord ${M.concord}`)),
    h("div", { class: "tools" }, h("button", { onclick: () => go({ lang: state.lang === "en" ? "zh" : "en" }) }, state.lang === "en" ? "中文" : "English"),
      h("button", { onclick: turnTheme, title: word("kTheme"), "aria-label": word("kTheme") }, "◐"), h("button", { onclick: () => window.print() }, word("print")),
      h("button", { onclick: help, "aria-label": word("keys"), title: word("keys") }, "?")));
  document.getElementById("tabs").replaceChildren(...Object.keys(TABS).map((tab) => h("button", { role: "tab", "aria-selected": String(tab === state.tab),
    onclick: () => go({ tab, c: "" }) }, word(tab), counts[tab] ? h("span", { class: "count" }, number(counts[tab])) : null)));
}
function help() {
  const box = document.getElementById("help");
  const keys = [["/", "kSearch"], ["j k ↓ ↑", "kMove"], ["Enter", "kOpen"], ["Esc", "kClose"], ["1 – 7", "kTabs"], ["t", "kTheme"], ["l", "kLang"], ["?", "kHelp"]];
  box.replaceChildren(h("h2", {}, word("keys")), table(null, keys.map(([key, text]) => [h("kbd", {}, key), word(text)])), h("p", {}, ""), h("button", { onclick: () => box.close() }, word("close")));
  box.showModal();
}
let drawn = "";
function render() {
  const shown = JSON.stringify({ ...state, c: "" });
  paint();
  if (shown !== drawn) {
    view = null;
    frame();
    document.getElementById("main").replaceChildren(...h("div", {}, TABS[state.tab]()).childNodes);
    if (view) fillList();
    drawn = shown;
  } else if (view) {
    at = state.c ? found.indexOf(+state.c) : at;
    drawRows();
  }
  if (view && at >= 0) scrollTo(at);
  showCase(state.tab === "cases" && state.c !== "" ? +state.c : -1);
}

// ---- keyboard

function openCurrent() {
  if (at >= 0) go({ c: String(found[at]) });
}
function leave() {
  const search = document.getElementById("search");
  if (document.activeElement === search) search.blur();
  else if (state.c) go({ c: "" });
}
const ACTIONS = {
  j: () => move(1), k: () => move(-1), ArrowDown: () => move(1), ArrowUp: () => move(-1), Enter: openCurrent, Escape: leave, t: turnTheme,
  l: () => go({ lang: state.lang === "en" ? "zh" : "en" }), "?": help,
  "/": () => { if (state.tab !== "cases") go({ tab: "cases" }); document.getElementById("search").focus(); },
};
Object.keys(TABS).forEach((tab, i) => { ACTIONS[String(i + 1)] = () => go({ tab, c: "" }); });
const LISTED = new Set(["j", "k", "ArrowDown", "ArrowUp", "Enter"]);
document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || document.getElementById("help").open) return;
  const typing = e.target.matches("input, select");
  if (typing && e.key !== "Escape" && !(e.target.id === "search" && e.key.startsWith("Arrow"))) return;
  if (LISTED.has(e.key) && (!view || e.target.matches("button, a, summary"))) return;
  if (!ACTIONS[e.key]) return;
  e.preventDefault();
  ACTIONS[e.key]();
});

// ---- start

window.addEventListener("hashchange", () => { readAddress(); render(); });
window.addEventListener("popstate", () => { readAddress(); render(); });
window.addEventListener("beforeprint", () => document.getElementById("print").replaceChildren(...h("div", {}, paper()).childNodes));
window.addEventListener("afterprint", () => document.getElementById("print").replaceChildren());
window.addEventListener("resize", () => drawRows());
dark.addEventListener("change", paint);
readAddress();
render();
document.documentElement.dataset.ready = String(Math.round(performance.now()));
setTimeout(haystack, 60); // so that the first key already finds the texts ready
