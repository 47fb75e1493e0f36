// The page of an incident: its parts in order, what is looked at, keys.

(function () {
  var time = timeline(), flame = flamegraph(), list = threads(), served = requests(), instant = dump();
  function redraw() { time.draw(); flame.draw(); }

  var scopeText = el("span", { id: "scope" });
  var clear = button("✕ all", function () { S.span = null; S.thread = -1; S.served = 0; S.query = ""; changed("goto"); changed("query"); }, { id: "clear" });
  function scope() {
    var parts = [];
    if (S.span) parts.push(el("span", { class: "chip" }, "+" + since(S.span[0]) + " – +" + since(S.span[1]) + " (" + dur(S.span[1] - S.span[0]) + "), " + clock(S.span[0]) + " UTC"));
    if (S.thread >= 0) parts.push(el("span", { class: "chip" }, "thread " + D.threads[S.thread].name));
    if (S.served) parts.push(el("span", { class: "chip" }, D.served[S.served]));
    clear.hidden = !parts.length && !S.query;
    put(scopeText, parts.length ? ["Shown: ", parts.map(function (p) { return [p, " "]; }).flat()].flat() : "Shown: the whole time, all threads");
    keep();
  }

  // What is looked at is in the address, so that a link to a copy of the file leads there.
  function keep() {
    var p = new URLSearchParams();
    if (D !== ALL[0]) p.set("process", ALL.indexOf(D));
    if (S.span) { p.set("from", Math.round(S.span[0])); p.set("to", Math.round(S.span[1])); }
    if (S.thread >= 0) p.set("thread", D.threads[S.thread].id);
    if (S.served) p.set("route", S.served);
    if (S.query) p.set("search", S.query);
    try { history.replaceState(null, "", p.toString() ? "#" + p : "#"); } catch (e) { /* a browser may forbid it for files */ }
  }
  function recall() {
    var p = new URLSearchParams(location.hash.slice(1)), to = {};
    if (p.has("from") && p.has("to") && isFinite(+p.get("from")) && isFinite(+p.get("to"))) { to.from = Math.max(+p.get("from"), 0); to.to = Math.min(+p.get("to"), D.ns); }
    var i = D.threads.findIndex(function (t) { return String(t.id) === p.get("thread"); });
    if (i >= 0) to.thread = i;
    if (D.served[+p.get("route")]) to.served = +p.get("route");
    S.query = p.get("search") || "";
    if (Object.keys(to).length || S.query) go(to);
  }
  listeners.push(function (what) { if (what !== "at" && what !== "view") scope(); });

  var parts = [["findings", "Findings"], ["timeline", "Timeline"], ["code", "Where time went"], ["threads", "Threads"], ["requests", "Requests"], ["waits", "GVL"], ["locks", "Locks"], ["gc", "GC"]].concat(D.heap ? [["objects", "Objects"]] : [], [["dump", "Thread dump"], ["limits", "What is not here"]]);
  // What did not fit on the page, of which process.
  function leftOut() {
    return ALL.filter(function (p) { return p.left.length; }).map(function (p) { return p.title + " [" + p.pid + "]: the page is full, so these are left out: " + p.left.join(", "); });
  }
  // Another process is another page of the same file.
  function choice() {
    if (ALL.length < 2) return null;
    var options = ALL.map(function (p, i) { return el("option", { value: i, selected: p === D }, p.title + " [" + p.pid + "]"); });
    return el("label", { class: "noprint" }, ALL.length + " processes: ", el("select", { id: "process", onchange: function (e) {
      location.hash = "process=" + e.target.value;
      location.reload();
    } }, options));
  }
  document.body.append(
    el("header", {},
      el("div", {}, el("h1", {}, D.title + " [" + D.pid + "]"), choice(),
        el("p", { class: "dim" }, day(0) + " " + clock(0) + " – " + clock(D.ns) + " UTC (" + dur(D.ns) + ") · " + D.ruby),
        leftOut().length ? el("p", { id: "left" }, "This page is full: parts of " + leftOut().length + (leftOut().length === 1 ? " process" : " processes") + " are left out. ",
          button("Which ones", function () { show("limits"); }, { class: "link" })) : null,
        el("nav", { class: "noprint", "aria-label": "parts" }, parts.map(function (p) { return el("a", { href: "#" + p[0], onclick: function (e) { e.preventDefault(); show(p[0]); } }, p[1]); }))),
      el("div", { class: "noprint" }, themeButton(redraw))),
    el("main", {}, shared(), findings(), facts(D.head),
      D.notes.length ? section("notes", "Notes", el("ul", { class: "plain" }, D.notes.map(function (n) { return el("li", {}, timeLink(n.at), " ", n.text); }))) : null,
      time.node, el("div", { class: "scope noprint" }, el("div", { class: "bar" }, scopeText, clear)),
      flame.node, list.node, served.node, capacity(), waits(), locks(), collector(), objects(), instant.node,
      section("limits", "What is not here, and what is uncertain", el("ul", { class: "plain" }, leftOut().concat(D.limits).map(function (l) { return el("li", {}, l); })),
        el("details", {}, el("summary", {}, "All figures as text"), el("pre", {}, D.stat)))));

  document.addEventListener("keydown", function (e) {
    if (e.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) { e.preventDefault(); flame.search.focus(); flame.search.select(); }
    if (e.key === "Escape" && e.target === flame.search) { S.query = ""; changed("query"); flame.search.blur(); }
  });
  flame.update(); list.update(); served.update(); instant.update(); scope(); redraw();
  recall();
  document.documentElement.setAttribute("data-ready", "1");
})();
