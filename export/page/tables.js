// Findings, threads, requests, waits, locks, collections and objects.

function threadLink(i, text) {
  if (i < 0) return text || "–";
  return button(text || D.threads[i].name, function () { S.thread = i; changed("thread"); show("timeline"); }, { class: "link", title: "this thread alone" });
}

function timeLink(ns, text, from, to) {
  return button(text || "+" + since(ns), function () { go({ from: from === undefined ? ns : from, to: to === undefined ? ns : to, at: ns }); }, { class: "link", title: clock(ns, true) + " UTC" });
}

function codeLink(f, text) {
  if (f < 0) return text;
  return button(text || nameOf(f), function () { go({ function: f }); show("code"); }, { class: "link", title: "show it in the flamegraph" });
}

// go shows a time, thread, route or function: what of it is given.
function go(to) {
  if (to.from !== undefined) {
    var least = Math.max(D.sliceNS, D.columns.ns, 1), a = to.from, b = to.to;
    if (b - a < least) { var mid = (a + b) / 2; a = mid - least / 2; b = mid + least / 2; }
    a = Math.min(Math.max(a, 0), Math.max(D.ns - least, 0)); b = Math.min(Math.max(b, a + Math.min(least, D.ns)), D.ns);
    S.span = [a, b];
    S.at = to.at === undefined ? (a + b) / 2 : to.at;
    if (a < S.view[0] || b > S.view[1]) S.view = [0, D.ns];
  }
  if (to.thread !== undefined) S.thread = to.thread;
  if (to.served !== undefined) S.served = to.served;
  if (to.function !== undefined) S.query = to.function < 0 ? "" : "^" + nameOf(to.function).replace(/[.*+?^${}()|[\]\\]/g, "\\$&") + "$";
  changed("goto");
  changed("query");
}

function show(id) { document.getElementById(id).scrollIntoView({ behavior: "auto", block: "start" }); }

// absent says why a part is empty: it was left out, or there is nothing.
function absent(part, nothing) {
  return el("p", { class: "dim" }, D.left.indexOf(part) >= 0 ? "Left out, because this page is full: record fewer processes or less time." : nothing);
}

// shared are the findings of all processes, each with a way to the process in which it is worst.
function shared() {
  if (!ALL[0].shared) return null;
  return section("service", "All processes", ALL[0].shared.map(function (f) {
    var i = ALL.findIndex(function (p) { return p.pid === f.pid; });
    return el("div", { class: "finding " + f.severity }, el("span", { class: "sev" }, f.severity.toUpperCase()), " ", f.text, " ",
      i >= 0 && ALL[i] !== D ? button("show pid " + f.pid, function () { location.hash = "process=" + i; location.reload(); }, { class: "link go-process" }) : null);
  }));
}

function findings() {
  if (!D.findings.length) return section("findings", "Findings", el("div", { id: "no-finding" }, absent("findings", "Nothing was found wrong, by the rules and limits that ddtop has.")));
  var rank = { crit: 0, warn: 1, info: 2 };
  D.findings.sort(function (a, b) { return rank[a.severity] - rank[b.severity] || a.from - b.from; });
  return section("findings", "Findings", D.findings.map(function (f) {
    function at() { return { from: f.from, to: f.to, thread: -1, served: 0 }; }
    return el("div", { class: "finding " + f.severity },
      el("div", {}, el("span", { class: "sev" }, f.severity.toUpperCase()), " ", el("b", {}, f.title), " ",
        el("span", { class: "dim" }, "from +" + since(f.from) + (f.on ? " to the end" : " to +" + since(f.to)) + ", " + clock(f.from) + (f.on ? "" : " – " + clock(f.to)) + " UTC")),
      el("div", {}, f.text), el("div", { class: "next" }, "→ " + f.next),
      el("div", { class: "bar noprint" },
        button("show the time", function () { go(at()); show("timeline"); }, { class: "go-time" }),
        f.threads.length ? button("thread " + D.threads[f.threads[0]].name, function () { go(Object.assign(at(), { thread: f.threads[0] })); show("timeline"); }, { class: "go-thread" }) : null,
        f.function >= 0 ? button("code " + nameOf(f.function), function () { go(Object.assign(at(), { function: f.function })); show("code"); }, { class: "go-code" }) : null,
        f.served ? button("route " + D.served[f.served], function () { go(Object.assign(at(), { served: f.served })); show("code"); }, { class: "go-route" }) : null,
        button("threads then", function () { go(Object.assign(at(), { at: (f.from + f.to) / 2 })); show("dump"); }, { class: "go-dump" })));
  }));
}

// threads are those of the span, with their time by state.
function threads() {
  var box = el("div"), title = el("p", { class: "dim small" });
  function update() {
    var sums = new Map();
    var r = eachWeight(spanOf(), function (thread, stack, state, wall, cpu, blame) {
      var x = sums.get(thread);
      if (!x) sums.set(thread, x = { i: thread, ns: new Array(10).fill(0), cpu: 0, blame: 0, all: 0 });
      x.ns[state] += wall; x.cpu += cpu; x.blame += blame; x.all += wall;
    });
    title.textContent = "from +" + since(r[0]) + " to +" + since(r[1]) + "; CPU and waits for the GVL beside a thread's name are of the whole time";
    function share(head, value) { return { head: head, num: true, sort: value, cell: function (x) { var v = value(x); return v ? pct(v, x.all) : "·"; } }; }
    put(box, table("threads-table", [
      { head: "thread", sort: function (x) { return x.i < 0 ? "" : D.threads[x.i].name; }, cell: function (x) {
        if (x.i < 0) return "(others)";
        var t = D.threads[x.i];
        return [threadLink(x.i), el("div", { class: "dim small" }, [t.tid ? "tid " + t.tid : "", t.cpu ? "CPU " + t.cpu : "", t.waits].filter(Boolean).join(", "))];
      } },
      { head: "its time", cell: function (x) { return mix(x.ns, D.states); } },
      share("runs", function (x) { return x.ns[1] + x.ns[3] + x.ns[2]; }), share("waits", function (x) { return x.ns[4]; }), share("io", function (x) { return x.ns[6]; }),
      share("lock", function (x) { return x.ns[7]; }), share("sleeps", function (x) { return x.ns[9]; }), share("rests", function (x) { return x.ns[8]; }), share("CPU", function (x) { return x.cpu; }),
      { head: "blame", num: true, sort: function (x) { return x.blame; }, cell: function (x) { return x.blame ? dur(x.blame * 1e3) : "·"; } }
    ], Array.from(sums.values()).sort(function (a, b) { return a.i - b.i; }), -1, function (tr, x) { if (x.i === S.thread) tr.className = "now"; }));
  }
  listeners.push(function (what) { if (what === "span" || what === "goto" || what === "thread") update(); });
  return { node: section("threads", "Threads", title, box), update: update };
}

function requests() {
  if (!D.routes.length) return { node: section("requests", "Requests and jobs", absent("routes and jobs", "None were seen.")), update: function () { } };
  var box = el("div"), whole = el("div");
  function update() { // the time of a span by route
    var sums = new Map(), span = spanOf();
    eachWeight(span, function (thread, stack, state, wall, cpu, blame, served) {
      var x = sums.get(served);
      if (!x) sums.set(served, x = { ns: new Array(10).fill(0), all: 0, blame: 0 });
      x.ns[state] += wall; x.all += wall; x.blame += blame;
    });
    D.routes.forEach(function (r) { r.span = r.served && sums.get(r.served) || { ns: S.span ? new Array(10).fill(0) : r.ns, all: 0, blame: 0 }; });
    put(box, table("routes", [
      { head: "route or job", sort: function (r) { return r.name; }, cell: function (r) {
        return [r.served ? button(r.name, function () { S.served = S.served === r.served ? 0 : r.served; changed("served"); }, { class: "link", title: "the flamegraph of it alone" }) : r.name, el("div", { class: "dim small" }, r.where)];
      } },
      { head: "ended", num: true, sort: function (r) { return r.ended; }, cell: function (r) { return r.ended; } },
      { head: "running", num: true, sort: function (r) { return r.running; }, cell: function (r) { return r.running; } },
      { head: "/s", num: true, sort: function (r) { return r.rate; }, cell: function (r) { return (r.least ? "≥" : "") + r.rate.toFixed(1); } },
      { head: "p50", num: true, sort: function (r) { return r.p50.ns; }, cell: function (r) { return r.p50.text; } },
      { head: "p95", num: true, sort: function (r) { return r.p95.ns; }, cell: function (r) { return r.p95.text; } },
      { head: "longest", num: true, sort: function (r) { return r.max.ns; }, cell: function (r) { return r.max.text; } },
      { head: "blame", num: true, sort: function (r) { return r.blame; }, cell: function (r) { return r.blame ? pct(r.blame, 1) : "·"; } },
      { head: "time of its threads in the span", num: true, sort: function (r) { return r.span.all; }, cell: function (r) { return r.span.all ? dur(r.span.all * 1e3) : "–"; } },
      { head: "by state", cell: function (r) { return mix(r.span.ns, D.states); } }
    ], D.routes, -1, function (tr, r) { if (r.served && r.served === S.served) tr.className = "now"; }));
  }
  function one(id, title, list) {
    return !list.length ? [] : [el("h3", {}, title), table(id, [
      { head: "took", num: true, sort: function (q) { return q.took.ns; }, cell: function (q) { return timeLink(q.from, q.took.text, q.from, q.from + q.took.ns); } },
      { head: "began", num: true, sort: function (q) { return q.from; }, cell: function (q) { return "+" + since(q.from); } },
      { head: "request", sort: function (q) { return q.name; }, cell: function (q) { return [q.name, el("div", { class: "dim small" }, [q.words, q.where].filter(Boolean).join(" · "))]; } },
      { head: "thread", sort: function (q) { return q.thread; }, cell: function (q) { return threadLink(q.thread); } },
      { head: "by state", cell: function (q) { return mix(q.ns, D.states); } }
    ], list, 0)];
  }
  put(whole, one("longest", "The longest ones", D.longest.slice(0, 30)), one("running", "In progress at the end", D.running));
  listeners.push(function (what) { if (what === "span" || what === "goto" || what === "served" || what === "thread") update(); });
  return { node: section("requests", "Requests and jobs", el("p", { class: "dim small" }, "As far as seen: shorter ones can be missed. Counts and lengths are of the whole time; blame is the share of the waiting for the GVL behind it."), box, whole), update: update };
}

// capacity draws what other numbers of threads would give: throughput, and time lost to the GVL.
function capacity() {
  var c = D.capacity;
  if (!c) return null;
  var head = "Other numbers of threads";
  if (!c.curve.length) return section("capacity", head, el("p", {}, "No prediction: " + c.why + "."));
  var w = 420, h = 150, left = 46, most = 1;
  c.curve.forEach(function (p) { most = Math.max(most, p.throughput); });
  var drawing = new DOMParser().parseFromString("<svg></svg>", "text/html").querySelector("svg");
  function node(name, attributes, text) {
    var n = document.createElementNS(drawing.namespaceURI, name);
    for (var k in attributes) n.setAttribute(k, attributes[k]);
    if (text !== undefined) n.textContent = text;
    return n;
  }
  function x(n) { return left + (n - 1) / Math.max(c.curve.length - 1, 1) * (w - left - 10); }
  function y(part) { return 10 + (1 - part) * (h - 30); }
  function line(tone, part) {
    return node("polyline", { fill: "none", stroke: "var(" + tone + ")", "stroke-width": 2, points: c.curve.map(function (p) { return x(p.threads) + "," + y(part(p)); }).join(" ") });
  }
  var plot = node("svg", { viewBox: "0 0 " + w + " " + h, width: w, height: h, role: "img", "aria-label": head });
  plot.append(node("line", { x1: x(c.threads), x2: x(c.threads), y1: 10, y2: y(0), stroke: "var(--line)" }),
    line("--s1", function (p) { return p.throughput / most; }), line("--s4", function (p) { return p.waiting_share; }));
  [1, c.threads, c.curve.length].forEach(function (n) { plot.append(node("text", { x: x(n), y: h - 4, "text-anchor": "middle", "font-size": 11, fill: "var(--dim)" }, n)); });
  [0, .5, 1].forEach(function (part) { plot.append(node("text", { x: left - 6, y: y(part) + 4, "text-anchor": "end", "font-size": 11, fill: "var(--dim)" }, pct(part, 1))); });
  return section("capacity", head,
    el("p", { class: "dim small" }, "Predicted for full load from " + c.requests + " " + c.work + "s, by a model that knows the GVL only; on average " + c.busy_mean.toFixed(1) + " of " + c.threads + " threads had one. The green curve is in parts of its highest point. To predict more than " + c.curve.length + " threads, measure with more than " + c.threads + "."),
    plot, table("capacity-table", [
      { head: "threads", num: true, sort: function (p) { return p.threads; }, cell: function (p) { return p.threads; } },
      { head: "throughput (green)", num: true, sort: function (p) { return p.throughput; }, cell: function (p) { return pct(p.throughput, 1); } },
      { head: "time lost to the GVL (orange)", num: true, sort: function (p) { return p.waiting_share; }, cell: function (p) { return pct(p.waiting_share, 1); } }
    ], c.curve, -1, function (tr, p) { if (p.threads === c.threads) tr.className = "now"; }));
}

function waits() {
  if (!D.blame.length && !D.waits.length) return section("waits", "Waiting for the GVL", absent("blame and single waits", "Nobody waited for it."));
  return section("waits", "Waiting for the GVL", el("p", {}, D.blamed),
    D.blame.length ? table("blame", [
      { head: "share", num: true, sort: function (b) { return b.share; }, cell: function (b) { return pct(b.share, 1); } },
      { head: "time", num: true, cell: function (b) { return b.words; } },
      { head: "waited behind", cell: function (b) { return codeLink(b.function, b.text); } },
      { head: "thread", cell: function (b) { return threadLink(b.thread); } }
    ], D.blame, 0) : null,
    D.waits.length ? [el("h3", {}, "The longest waits"), table("waits-table", [
      { head: "waited", num: true, sort: function (w) { return w.ns; }, cell: function (w) { return timeLink(w.from, w.words, w.from, w.from + w.ns); } },
      { head: "from", num: true, sort: function (w) { return w.from; }, cell: function (w) { return "+" + since(w.from); } },
      { head: "thread", cell: function (w) { return threadLink(w.thread); } },
      { head: "before", cell: function (w) { return w.before; } }
    ], D.waits, 0)] : null);
}

function locks() {
  if (!D.locks.length) return section("locks", "Locks", absent("locks", "Nobody was seen to wait for a Mutex or Monitor."));
  return section("locks", "Locks", el("p", { class: "dim small" }, "Mutexes and Monitors that threads waited for, over the whole time; who waits at an instant is in the thread dump."), table("locks-table", [
    { head: "waited", num: true, sort: function (l) { return l.ns; }, cell: function (l) { return timeLink(l.from, l.words, l.from, l.to); } },
    { head: "lock", sort: function (l) { return l.name; }, cell: function (l) { return l.name; } },
    { head: "where", cell: function (l) { return codeLink(l.function, l.where); } },
    { head: "held meanwhile by", cell: function (l) { return l.owned; } },
    { head: "who waited", cell: function (l) { return l.waited; } }
  ], D.locks, 0));
}

function facts(list) {
  return el("div", { class: "facts" }, list.map(function (f) { return el("div", { class: "fact" }, el("span", {}, f.name), el("b", {}, f.value), el("span", {}, f.about)); }));
}

// objects is the table of live objects by class. Most pages have none, because no objects were counted.
function objects() {
  if (!D.heap) return null;
  return section("objects", "Objects", D.heap.said.map(function (s) { return el("p", { class: "dim small" }, s); }), table("objects-table", [
    { head: "class", sort: function (c) { return c.name; }, cell: function (c) { return c.suspect ? [el("b", {}, c.name), " ← look at this first"] : c.name; } },
    { head: "objects", num: true, sort: function (c) { return c.objects; }, cell: function (c) { return c.objects; } },
    { head: "old", num: true, sort: function (c) { return c.old; }, cell: function (c) { return c.old; } },
    { head: "bytes", num: true, sort: function (c) { return c.bytes; }, cell: function (c) { return c.size; } },
    { head: "share", num: true, sort: function (c) { return c.share; }, cell: function (c) { return pct(c.share, 1); } },
    { head: "growth", sort: function (c) { return c.rate; }, cell: function (c) { return c.growth || "·"; } }
  ], D.heap.classes, -1));
}

function collector() {
  var g = D.gc, cycles = [];
  for (var i = 0; i < g.cycles.length; i += 3) cycles.push({ at: g.cycles[i], major: g.cycles[i + 1], why: D.texts[g.cycles[i + 2]] });
  function places(title, list) {
    return !list.length ? null : [el("h3", {}, title), el("ul", { class: "plain" }, list.map(function (p) { return el("li", {}, p.text + ": ", el("span", { class: "dim" }, p.value)); }))];
  }
  return section("gc", "Garbage collection", facts(g.facts), places("Collections began in", g.triggers), places("Time in it was spent under", g.payers),
    cycles.length ? el("details", {}, el("summary", {}, cycles.length + " collections by time"), table("cycles", [
      { head: "seen", num: true, sort: function (c) { return c.at; }, cell: function (c) { return timeLink(c.at, "+" + since(c.at, 3)); } },
      { head: "kind", sort: function (c) { return c.major; }, cell: function (c) { return c.major ? "major" : "minor"; } },
      { head: "why", sort: function (c) { return c.why; }, cell: function (c) { return c.why; } }
    ], cycles, -1)) : null);
}
