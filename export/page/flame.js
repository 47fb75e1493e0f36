// The flamegraph and the functions of a span, of a thread or a route.

var METRICS = [["busy", "time, without threads at rest"], ["wall", "time, all of it"], ["cpu", "CPU time"], ["wait", "waiting for the GVL"], ["blame", "blame: others waited behind it"]];
var NONE = "(no stack)";

// eachWeight calls fn with each weight of a span: thread, stack, state, µs of wall, CPU and blame, whom it was for.
function eachWeight(span, fn) {
  var from = Math.floor(span[0] / D.sliceNS), to = Math.min(Math.max(Math.ceil(span[1] / D.sliceNS), from + 1), D.slices.length);
  for (var n = from; n < to; n++) {
    var s = D.slices[n];
    for (var i = 0; i < s.length;) {
      var thread = s[i++], stack = s[i++], flags = s[i++], wall = s[i++];
      fn(thread, stack, flags & 15, wall, flags & 16 ? s[i++] : 0, flags & 32 ? s[i++] : 0, flags & 64 ? s[i++] : 0);
    }
  }
  return [from * D.sliceNS, Math.min(to * D.sliceNS, D.ns)];
}

// weightsOf sums up what is looked at by stack and state, in µs.
function weightsOf(metric, span) {
  var sums = new Map(), total = 0;
  eachWeight(span, function (thread, stack, state, wall, cpu, blame, served) {
    if (S.thread >= 0 && thread !== S.thread || S.served && served !== S.served) return;
    var v = metric === "cpu" ? cpu : metric === "blame" ? blame : metric === "wait" ? (state === WAITING ? wall : 0) : metric === "busy" && rests(state) ? 0 : wall;
    if (!v) return;
    var k = (stack + 2) * 16 + state;
    sums.set(k, (sums.get(k) || 0) + v);
    total += v;
  });
  return { sums: sums, total: total };
}

// caller returns the node that calls node i, or -1, and functionOf its function.
function caller(i) { return D.nodes[2 * i] ? i - D.nodes[2 * i] : -1; }
function functionOf(i) { return D.nodes[2 * i + 1]; }
function own(f) { return D.names[f][5] === ""; }
function nameOf(f) { return f < 0 ? NONE : D.names[f][0]; }
function fileOf(f) { return f < 0 || D.names[f][1] < 0 ? "" : D.files[D.names[f][1]] + (D.names[f][2] ? ":" + D.names[f][2] : ""); }

function newNode(f, up) {
  return { f: f, up: up, total: 0, self: 0, states: new Float64Array(10), selfStates: new Float64Array(10), kids: new Map(), depth: up ? up.depth + 1 : 0 };
}

// treeOf makes a tree of weights: outermost frames first, or inverted; ownOnly leaves out what is not the program's own.
function treeOf(w, inverted, ownOnly) {
  var root = newNode(-3, null), paths = new Map();
  function child(n, f) {
    var k = n.kids.get(f);
    if (!k) n.kids.set(f, k = newNode(f, n));
    return k;
  }
  function path(stack) { // functions of a stack, outermost first
    var p = paths.get(stack);
    if (p) return p;
    p = [];
    if (stack < 0) p.push(stack);
    else for (var i = stack; i >= 0; i = caller(i)) {
      var f = functionOf(i);
      if (ownOnly ? own(f) : !inverted || !native(f)) p.push(f);
    }
    p.reverse();
    if (!p.length) p.push(functionOf(ruby(stack)));
    paths.set(stack, p);
    return p;
  }
  w.sums.forEach(function (v, k) {
    var state = k % 16, p = path(Math.floor(k / 16) - 2), n = root;
    n.total += v; n.states[state] += v;
    for (var i = 0; i < p.length; i++) {
      n = child(n, inverted ? p[p.length - 1 - i] : p[i]);
      n.total += v; n.states[state] += v;
      if (inverted && i === 0) { n.self += v; n.selfStates[state] += v; }
    }
    if (!inverted) { n.self += v; n.selfStates[state] += v; }
  });
  return root;
}

// ruby returns the innermost node of a stack that is not of C code below the Ruby frames.
function ruby(stack) {
  for (var i = stack; i >= 0; i = caller(i)) if (!native(functionOf(i))) return i;
  return stack;
}

// functionsOf sums up by function: itself, and with what it calls, once a stack.
function functionsOf(w) {
  var all = new Map();
  function of(f) {
    var x = all.get(f);
    if (!x) all.set(f, x = { f: f, self: 0, total: 0, states: new Float64Array(10) });
    return x;
  }
  w.sums.forEach(function (v, k) {
    var stack = Math.floor(k / 16) - 2, state = k % 16, seen = new Set();
    if (stack < 0) { var x = of(stack); x.self += v; x.total += v; x.states[state] += v; return; }
    stack = ruby(stack);
    of(functionOf(stack)).self += v;
    for (var i = stack; i >= 0; i = caller(i)) {
      var f = functionOf(i);
      if (seen.has(f)) continue;
      seen.add(f);
      x = of(f); x.total += v; x.states[state] += v;
    }
  });
  return Array.from(all.values());
}

// RUN is the number of frames from which on those that are not the program's own are one row, as on the screen.
var RUN = 3;
function folds(f) { return f >= 0 && D.names[f][5] !== "" && D.names[f][5] !== "-" && !native(f); }
// native reports whether a function is one of C code below the Ruby frames. Such functions are never folded.
function native(f) { return f >= 0 && D.names[f][5] === "(C)"; }
function core(f) { return f >= 0 && D.names[f][5] === "ruby"; }

// textOf is what a row says of a node.
function textOf(n) { return n.run ? "⋯ " + n.run.frames + " frames: " + n.run.libraries.join(", ") : nameOf(n.f); }

// folded makes a tree in which runs of frames that are not the program's own are one row each (flamegraph.Fold).
function folded(whole, inverted) {
  function merged(nodes, f, up) {
    var n = newNode(f, up);
    nodes.forEach(function (o) { n.total += o.total; n.self += o.self; o.states.forEach(function (v, s) { n.states[s] += v; }); });
    if (up) up.kids.set(f, n);
    return n;
  }
  function groups(nodes) {
    var all = new Map();
    nodes.forEach(function (k) { if (all.has(k.f)) all.get(k.f).push(k); else all.set(k.f, [k]); });
    return all;
  }
  function kidsOf(nodes) { return nodes.flatMap(function (n) { return Array.from(n.kids.values()); }); }
  function deep(nodes, most) {
    if (!most) return 0;
    return 1 + nodes.reduce(function (d, n) {
      n.kids.forEach(function (k) { if (folds(k.f) && d < most - 1) d = Math.max(d, deep([k], most - 1)); });
      return d;
    }, 0);
  }
  function fill(c, nodes) {
    groups(kidsOf(nodes)).forEach(function (group, f) {
      var stays = !folds(f) || c.f >= 0 && own(c.f) && core(f) && !inverted || !c.up && inverted;
      if (!stays && deep(group, RUN) >= RUN) return run(c, group);
      fill(merged(group, f, c), group);
    });
  }
  function heaviest(nodes) {
    var out = { frames: 0, libraries: [], functions: new Set() };
    for (var at = nodes; at.length;) {
      var n = at.reduce(function (a, b) { return b.total > a.total ? b : a; });
      if (!folds(n.f)) break;
      out.frames++;
      if (!core(n.f) && out.libraries.indexOf(D.names[n.f][5]) < 0) out.libraries.push(D.names[n.f][5]);
      at = Array.from(n.kids.values());
    }
    if (!out.libraries.length) out.libraries.push("ruby");
    return out;
  }
  function run(c, nodes) {
    var r = merged(nodes, nodes[0].f, c), below = [], leaves = [];
    r.run = heaviest(nodes);
    r.self = 0;
    function walk(n) {
      r.run.functions.add(n.f);
      var inC = Array.from(n.kids.values()).some(function (k) { return native(k.f); });
      if (n.self && core(n.f) && !inverted || inC) leaves.push(n);
      else r.self += n.self;
      n.kids.forEach(function (k) { if (folds(k.f)) walk(k); else if (!native(k.f)) below.push(k); });
    }
    nodes.forEach(walk);
    groups(below).forEach(function (group, f) { fill(merged(group, f, r), group); });
    groups(leaves).forEach(function (group, f) {
      var l = newNode(f, r);
      group.forEach(function (n) { l.total += n.self; l.self += n.self; n.selfStates.forEach(function (v, s) { l.states[s] += v; }); });
      groups(kidsOf(group)).forEach(function (inC, k) {
        if (!native(k)) return;
        var m = merged(inC, k, l);
        l.total += m.total;
        m.states.forEach(function (v, s) { l.states[s] += v; });
        fill(m, inC);
      });
      r.kids.set(f, l);
    });
  }
  var root = merged([whole], whole.f, null);
  fill(root, [whole]);
  return root;
}

var ROW = 19;

// flameBox draws a tree. text: node → what is said of it, fill: node → its colour.
function flameBox(id, text, fill) {
  var cells = el("div", { class: "cells" });
  var box = el("div", { class: "flame", id: id, tabindex: 0, role: "application", "aria-label": "flamegraph: arrow keys move, enter zooms, escape zooms out" }, cells);
  var about = el("div", { class: "about", "aria-live": "polite" });
  var root = null, zoomed = null, now = null, nodes = [], hit = null;
  function say(n) { about.textContent = n ? text(n) : ""; }
  function draw() {
    var w = box.clientWidth - 2, y = 0, list = [];
    nodes = [];
    if (!root || !root.total) { put(cells, el("p", { class: "dim", style: { padding: "8px" } }, "nothing to show here")); cells.style.height = ""; return; }
    var above = [];
    for (var n = zoomed; n; n = n.up) above.unshift(n);
    above.forEach(function (n) { add(n, 0, w, n !== zoomed); });
    function add(n, x, width, up) {
      nodes.push({ n: n, x: x, w: width });
      var label = n.f === -3 ? "all" : textOf(n);
      list.push(el("div", {
        class: "cell" + (up ? " up" : "") + (hit && n.f !== -3 && hit(n) ? " hit" : "") + (n === now ? " now" : ""), "data-i": nodes.length - 1,
        style: { left: x + "px", top: n.depth * ROW + "px", width: width + "px", background: fill(n) }
      }, width > 22 ? label : ""));
      y = Math.max(y, n.depth);
    }
    (function kids(n, x, scale) {
      Array.from(n.kids.values()).sort(function (a, b) { return b.total - a.total; }).forEach(function (k) {
        var kw = k.total * scale;
        if (kw < 1.5 || nodes.length > 6000) return;
        add(k, x, kw, false);
        kids(k, x, scale);
        x += kw;
      });
    })(zoomed, 0, w / zoomed.total);
    put(cells, list);
    cells.style.height = (y + 1) * ROW + "px";
    say(now || zoomed);
  }
  function nodeAt(e) { var c = e.target.closest(".cell"); return c && nodes[c.getAttribute("data-i")].n; }
  box.addEventListener("click", function (e) { var n = nodeAt(e); if (n) { zoomed = n; now = n; draw(); } });
  box.addEventListener("mouseover", function (e) { var n = nodeAt(e); if (n) say(n); });
  box.addEventListener("keydown", function (e) {
    if (!root || e.ctrlKey || e.metaKey || e.altKey) return;
    var n = now || zoomed, kids = n && Array.from(n.kids.values()).sort(function (a, b) { return b.total - a.total; });
    var beside = n && n.up && Array.from(n.up.kids.values()).sort(function (a, b) { return b.total - a.total; });
    switch (e.key) {
      case "ArrowDown": now = kids[0] || n; break;
      case "ArrowUp": now = n.up || n; break;
      case "ArrowLeft": case "ArrowRight":
        if (beside) now = beside[Math.min(Math.max(beside.indexOf(n) + (e.key === "ArrowLeft" ? -1 : 1), 0), beside.length - 1)];
        break;
      case "Enter": zoomed = n; break;
      case "Escape": zoomed = root; now = null; break;
      default: return;
    }
    e.preventDefault();
    draw();
    var c = cells.querySelector(".now");
    if (c) c.scrollIntoView({ block: "nearest" });
  });
  new ResizeObserver(draw).observe(box);
  return {
    box: box, about: about, draw: draw,
    set: function (r) { // zoomed to the same functions where they are there still
      var p = [];
      for (var n = zoomed; n && n.up; n = n.up) p.unshift(n.f);
      root = r; zoomed = r; now = null;
      p.every(function (f) { var k = zoomed.kids.get(f); if (k) zoomed = k; return !!k; });
      draw();
    },
    reset: function () { zoomed = root; now = null; draw(); },
    mark: function (match) { hit = match; draw(); }
  };
}

function flamegraph() {
  var metric = D.allFrames ? "wall" : "busy", by = "origin", inverted = false, ownOnly = false, w = null, rounded = [0, 0];
  var code = !D.allFrames && D.names.some(function (n) { return n[5] === ""; }) ? "first" : "all";
  var flame = flameBox("flame", function (n) {
    var text = n.f === -3 ? "all" : textOf(n);
    if (!n.run) text += (fileOf(n.f) ? "  " + fileOf(n.f) : "") + (n.f >= 0 && D.names[n.f][4] ? "  gem " + D.names[n.f][4] : "");
    text += "\n" + dur(n.total * 1e3) + ", " + pct(n.total, w.total) + " of what is shown; itself " + dur(n.self * 1e3);
    return text + "\n" + STATE_ORDER.filter(function (s) { return n.states[s]; }).map(function (s) { return D.states[s] + " " + pct(n.states[s], n.total); }).join(", ");
  }, function (n) {
    if (n.f < 0 || n.run && by === "origin") return "var(--o0)";
    if (by === "origin") return "var(--o" + D.names[n.f][3] + ")";
    var best = 0;
    for (var s = 0; s < 10; s++) if (n.states[s] > n.states[best]) best = s;
    return "color-mix(in srgb,var(--s" + best + ") 70%,white)";
  });
  var found = el("span", { class: "dim", id: "matched", "aria-live": "polite" }), note = el("p", { class: "dim small", id: "flame-span" });
  var functions = el("div", { id: "functions" }), colors = el("div");
  var search = el("input", { type: "search", id: "search", placeholder: "search functions (/)", "aria-label": "search functions, a text or a regular expression", oninput: function () { S.query = search.value; changed("query"); } });

  function mark() {
    var m = matcher(S.query);
    if (search.value !== S.query) search.value = S.query;
    function hits(f) { return m(nameOf(f)) || f >= 0 && m(fileOf(f)); }
    flame.mark(m && function (n) { return n.run ? Array.from(n.run.functions).some(hits) : hits(n.f); });
    found.textContent = "";
    if (!m) return;
    var cache = new Map(), sum = 0; // a stack counts once, however often the name is in it
    function matches(stack) {
      if (stack < 0) return m(nameOf(stack));
      if (!cache.has(stack)) cache.set(stack, m(nameOf(functionOf(stack))) || m(fileOf(functionOf(stack))) || caller(stack) >= 0 && matches(caller(stack)));
      return cache.get(stack);
    }
    w.sums.forEach(function (v, k) { if (matches(Math.floor(k / 16) - 2)) sum += v; });
    found.textContent = "matched " + pct(sum, w.total);
  }

  function update() {
    rounded = eachWeight(spanOf(), function () { });
    w = weightsOf(metric, spanOf());
    var tree = treeOf(w, inverted, ownOnly);
    flame.set(code === "first" ? folded(tree, inverted) : tree);
    var of = METRICS.find(function (m) { return m[0] === metric; })[1];
    note.textContent = of + ": " + dur(w.total * 1e3) + " of all threads together, from +" + since(rounded[0]) + " to +" + since(rounded[1]) + (S.span ? " (the span, rounded to slices of " + dur(D.sliceNS) + ")" : "");
    put(functions, el("h3", {}, "Functions"), table("top", [
      { head: "itself", num: true, sort: function (r) { return r.self; }, cell: function (r) { return pct(r.self, w.total); } },
      { head: "with callees", num: true, sort: function (r) { return r.total; }, cell: function (r) { return pct(r.total, w.total); } },
      { head: "function", sort: function (r) { return nameOf(r.f); }, cell: function (r) {
        return [r.f < 0 ? nameOf(r.f) : button(nameOf(r.f), function () { S.query = "^" + nameOf(r.f).replace(/[.*+?^${}()|[\]\\]/g, "\\$&") + "$"; changed("query"); }, { class: "link" }), el("div", { class: "dim small" }, fileOf(r.f))];
      } },
      { head: "state", wide: true, cell: function (r) { return mix(Array.from(r.states), D.states); } }
    ], functionsOf(w).filter(function (r) { return !ownOnly || r.f < 0 || own(r.f); }).sort(function (a, b) { return b.self - a.self || b.total - a.total; }).slice(0, 40), 0));
    put(colors, by === "state" ? legend() : el("div", { class: "legend" }, D.origins.map(function (o, i) {
      return el("span", {}, el("i", { style: { background: "var(--o" + i + ")" } }), o === "app" ? "the program's own" : o);
    })));
    mark();
  }

  listeners.push(function (what) {
    if (what === "query") mark();
    else if (what === "span" || what === "thread" || what === "served" || what === "goto") update();
  });
  var select = el("select", { id: "metric", onchange: function () { metric = select.value; update(); } }, METRICS.map(function (m) { return el("option", { value: m[0] }, m[1]); }));
  var frames = el("select", { id: "own", onchange: function () { code = frames.value; ownOnly = code === "only"; flame.reset(); update(); } },
    [["first", "own code first"], ["only", "own code only"], ["all", "all frames"]].map(function (m) { return el("option", { value: m[0] }, m[1]); }));
  select.value = metric;
  frames.value = code;
  var tone = el("select", { id: "tone", onchange: function () { by = tone.value; update(); } }, el("option", { value: "origin" }, "where code comes from"), el("option", { value: "state" }, "state"));
  var bar = el("div", { class: "bar noprint" }, el("label", {}, "weight", select), el("label", {}, "colour", tone),
    el("label", {}, "code", frames),
    el("label", {}, el("input", { type: "checkbox", id: "inverted", onchange: function (e) { inverted = e.target.checked; flame.reset(); update(); } }), "callees first"),
    search, found, button("reset zoom", function () { flame.reset(); }, { id: "reset" }));
  var node = section("code", "Where time went", note, bar, colors, flame.box, flame.about, functions);
  return { node: node, update: update, draw: flame.draw, search: search, metric: function (m) { metric = select.value = m; } };
}
