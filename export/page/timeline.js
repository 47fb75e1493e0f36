// The timeline: curves of the process, a lane a thread, a span that is dragged, an instant that is clicked.

// S is what is looked at: view is the time on the screen, span what the figures below are of (null: all), at the instant of the thread
// dump, thread and served whom they are of (-1 and 0: all). changed tells everybody what of it is new.
var S = { view: [0, D.ns], span: null, at: D.ns, thread: -1, served: 0, query: "" };
var listeners = [];
function changed(what) { listeners.forEach(function (f) { f(what); }); }
function spanOf() { return S.span || [0, D.ns]; }

var MIXES = "!#$%()*+,-/:;=?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_`abcdefghijklmnopqrstuvwxyz{|}~", SHARES = 6;

// cellsOf decodes a lane: of each column the first and second state and the second's share of 255.
function cellsOf(t) {
  if (t.decoded) return t.decoded;
  var n = D.columns.n, a = new Uint8Array(n).fill(255), b = new Uint8Array(n).fill(255), share = new Uint8Array(n), text = t.cells, col = t.first;
  for (var i = 0; i < text.length;) {
    var c = text.charCodeAt(i++), s1 = 255, s2 = 255, sh = 0;
    if (c >= 97) s1 = c - 97;
    else if (c >= 65) {
      var m = MIXES.indexOf(text[i++]);
      s1 = c - 65; s2 = Math.floor(m / SHARES); sh = 255 * (m % SHARES + .5) / SHARES / 2;
    }
    var run = 0;
    while (i < text.length && text.charCodeAt(i) >= 48 && text.charCodeAt(i) <= 57) run = run * 10 + text.charCodeAt(i++) - 48;
    for (run = run || 1; run > 0 && col < n; run--, col++) { a[col] = s1; b[col] = s2; share[col] = sh; }
  }
  return t.decoded = { a: a, b: b, share: share };
}

var LANE = 18, CURVE = 30, AXIS = 22, FEW = 20;

function timeline() {
  var canvas = el("canvas", {
    tabindex: 0, id: "lanes", role: "application",
    "aria-label": "timeline of threads: arrow keys move the instant, with shift the span, + and - zoom, enter zooms to the span, escape takes it away"
  });
  var names = el("div", { class: "names" }), over = el("div", { class: "span", hidden: true, id: "span" }), at = el("div", { class: "at" });
  var plot = el("div", { class: "plot" }, canvas, over, at), all = false;
  var curves = [["waiting for the GVL", D.columns.wait, "--s4", function (v) { return v.toFixed(1) + " threads"; }], ["GVL held", D.columns.held, "--s1", percent],
    ["collector", D.columns.gc, "--s3", percent], ["CPU", D.columns.cpu, "--s5", function (v) { return v.toFixed(2) + " CPUs"; }],
    ["memory", D.columns.rss, "--faint", function (v) { return (v / 1e6).toFixed(0) + " MB"; }]].filter(function (c) { return c[1].max > 0; });
  function percent(v) { return (100 * v).toFixed(0) + " %"; }
  var resting = D.threads.filter(function (t) { return t.rests; }).length;

  function lanes() {
    var list = D.threads.map(function (t, i) { return i; });
    if (!all) list = list.filter(function (i) { return !D.threads[i].rests; }).slice(0, FEW);
    if (!all && !list.length) list = D.threads.map(function (t, i) { return i; }).slice(0, FEW);
    if (S.thread >= 0 && list.indexOf(S.thread) < 0) list.push(S.thread);
    return list;
  }
  var more = button("", function () { all = !all; label(); draw(); }, { id: "all-threads" });
  var top = AXIS + curves.length * CURVE, shown = [];

  function label() {
    shown = lanes();
    more.textContent = all ? "show the busiest threads alone" : "show all " + D.threads.length + " threads" + (resting ? " (" + resting + " rest all the time)" : "");
    more.hidden = !all && shown.length === D.threads.length;
    put(names, el("div", { class: "axis" }), curves.map(function (c) { return el("div", { class: "curve", title: c[0] + ", at most " + c[3](c[1].max) }, c[0]); }),
      shown.map(function (i) {
        var t = D.threads[i];
        return button(t.name, function () { S.thread = S.thread === i ? -1 : i; changed("thread"); },
          { "aria-pressed": S.thread === i ? "true" : "false", title: t.name + (t.tid ? ", tid " + t.tid : "") + (t.waits ? ", " + t.waits : "") });
      }));
  }

  function x(ns) { return (ns - S.view[0]) / (S.view[1] - S.view[0]) * plot.clientWidth; }
  function time(px) { return Math.min(Math.max(S.view[0] + px / plot.clientWidth * (S.view[1] - S.view[0]), 0), D.ns); }

  function draw() {
    var w = plot.clientWidth, h = top + shown.length * LANE, ratio = window.devicePixelRatio || 1;
    canvas.width = Math.max(Math.round(w * ratio), 1); canvas.height = Math.round(h * ratio);
    canvas.style.height = h + "px";
    canvas.setAttribute("data-view", S.view.map(Math.round).join(" "));
    var g = canvas.getContext("2d"), tones = D.states.map(function (s, i) { return color("--s" + i); });
    g.scale(ratio, ratio);
    g.clearRect(0, 0, w, h);
    axis(g, w, h);
    curves.forEach(function (c, i) { curve(g, w, AXIS + i * CURVE, c); });
    shown.forEach(function (i, k) { lane(g, w, top + k * LANE, D.threads[i], tones); });
    D.notes.forEach(function (n) { g.fillStyle = color("--accent"); g.fillRect(x(n.at) - 1, 0, 2, h); });
    D.findings.forEach(function (f) { // a line above the lanes for the time of a finding
      g.fillStyle = color("--" + f.severity);
      g.fillRect(x(f.from), AXIS - 3, Math.max(x(f.to) - x(f.from), 2), 3);
    });
    place();
  }

  function place() {
    over.hidden = !S.span;
    if (S.span) {
      var a = Math.max(x(S.span[0]), 0), b = Math.min(x(S.span[1]), plot.clientWidth);
      over.hidden = b < 0 || a > plot.clientWidth;
      over.style.left = a + "px"; over.style.width = Math.max(b - a, 1) + "px";
    }
    var p = x(S.at);
    at.hidden = p < -1 || p > plot.clientWidth + 1;
    at.style.left = Math.min(p, plot.clientWidth - 1) + "px";
  }

  function axis(g, w, h) {
    var step = 1e6, want = (S.view[1] - S.view[0]) / Math.max(w / 110, 1), k = 0;
    while (step < want) step *= [2, 2.5, 2][k++ % 3];
    g.font = "11px system-ui,sans-serif"; g.fillStyle = color("--dim"); g.strokeStyle = color("--line"); g.lineWidth = 1;
    for (var t = Math.ceil(S.view[0] / step) * step; t <= S.view[1]; t += step) {
      g.beginPath(); g.moveTo(x(t) + .5, 15); g.lineTo(x(t) + .5, h); g.stroke();
      g.fillText(clock(t, step < 1e9) + "  +" + since(t, step < 1e8 ? 3 : step < 1e9 ? 1 : 0), x(t) + 3, 12);
    }
  }

  // eachPixel calls fn with the columns under each pixel.
  function eachPixel(w, fn) {
    var c = D.columns.ns;
    for (var px = 0; px < w; px++) {
      var from = Math.floor(time(px) / c), to = Math.max(Math.ceil(time(px + 1) / c), from + 1);
      if (from < D.columns.n) fn(px, from, Math.min(to, D.columns.n));
    }
  }

  function curve(g, w, y, c) {
    var v = c[1].v, max = c[1].max;
    g.fillStyle = color(c[2]);
    eachPixel(w, function (px, from, to) {
      var best = -1;
      for (var i = from; i < to; i++) best = Math.max(best, v[i]);
      if (best > 0) { var h = best / 255 * (CURVE - 5); g.fillRect(px, y + CURVE - 1 - h, 1, h); }
    });
    g.fillStyle = color("--dim"); g.font = "10px system-ui,sans-serif";
    var text = c[3](max);
    g.fillStyle = color("--bg"); g.globalAlpha = .7; g.fillRect(0, y + 2, g.measureText(text).width + 6, 12); g.globalAlpha = 1;
    g.fillStyle = color("--dim"); g.fillText(text, 3, y + 11);
  }

  function lane(g, w, y, t, tones) {
    var c = cellsOf(t), sums = new Float64Array(D.states.length);
    eachPixel(w, function (px, from, to) {
      sums.fill(0);
      var n = 0;
      for (var i = from; i < to; i++) {
        if (c.a[i] === 255) continue;
        sums[c.a[i]] += 255 - c.share[i];
        if (c.b[i] !== 255) sums[c.b[i]] += c.share[i];
        n += 255;
      }
      if (!n) return;
      var bottom = y + LANE - 2;
      for (var k = 0; k < STATE_ORDER.length; k++) {
        var s = STATE_ORDER[k];
        if (!sums[s]) continue;
        var h = (LANE - 3) * sums[s] / n;
        g.fillStyle = tones[s];
        g.fillRect(px, bottom - h, 1, h);
        bottom -= h;
      }
    });
  }

  function zoom(factor, around) {
    var len = Math.min(Math.max((S.view[1] - S.view[0]) * factor, Math.min(10 * D.columns.ns, D.ns)), D.ns);
    var f = (around - S.view[0]) / (S.view[1] - S.view[0]);
    look(around - f * len, len);
  }
  function look(from, len) {
    from = Math.min(Math.max(from, 0), D.ns - len);
    S.view = [from, from + len];
    changed("view");
  }
  function middle() { return S.span ? (S.span[0] + S.span[1]) / 2 : (S.view[0] + S.view[1]) / 2; }
  function zoomToSpan() { if (S.span) { var len = Math.max((S.span[1] - S.span[0]) * 1.1, 1e6); look((S.span[0] + S.span[1] - len) / 2, Math.min(len, D.ns)); } }
  function setSpan(a, b) {
    var least = Math.min(D.columns.ns, D.ns);
    if (b - a < least) b = a + least;
    a = Math.min(Math.max(a, 0), D.ns - least); b = Math.min(b, D.ns);
    S.span = [a, b]; S.at = (a + b) / 2;
    changed("span");
  }
  function move(by) { var s = spanOf(), len = s[1] - s[0], a = Math.min(Math.max(s[0] + by * len, 0), D.ns - len); if (S.span) setSpan(a, a + len); }

  var down = null;
  plot.addEventListener("pointerdown", function (e) {
    if (e.button) return;
    down = { x: e.clientX - plot.getBoundingClientRect().left, y: e.clientY - plot.getBoundingClientRect().top, moved: false };
    try { plot.setPointerCapture(e.pointerId); } catch (err) { /* it is gone already */ }
  });
  plot.addEventListener("pointermove", function (e) {
    var px = e.clientX - plot.getBoundingClientRect().left;
    if (!down) { canvas.title = told(time(px), e.clientY - plot.getBoundingClientRect().top); return; }
    if (Math.abs(px - down.x) < 4 && !down.moved) return;
    down.moved = true;
    S.span = [Math.min(time(down.x), time(px)), Math.max(time(down.x), time(px))];
    place();
  });
  plot.addEventListener("pointerup", function (e) {
    if (!down) return;
    var px = e.clientX - plot.getBoundingClientRect().left, was = down;
    down = null;
    if (was.moved) { setSpan(Math.min(time(was.x), time(px)), Math.max(time(was.x), time(px))); return; }
    S.at = time(px);
    changed("at");
  });
  plot.addEventListener("pointercancel", function () { down = null; changed("span"); });
  plot.addEventListener("dblclick", function (e) {
    var i = shown[Math.floor((e.clientY - plot.getBoundingClientRect().top - top) / LANE)];
    if (i !== undefined) { S.thread = S.thread === i ? -1 : i; changed("thread"); }
  });
  plot.addEventListener("wheel", function (e) {
    if (!e.ctrlKey && !e.shiftKey) return;
    e.preventDefault();
    var d = e.deltaY || e.deltaX;
    if (e.ctrlKey) zoom(d > 0 ? 1.25 : .8, time(e.clientX - plot.getBoundingClientRect().left));
    else look(S.view[0] + Math.sign(d) * (S.view[1] - S.view[0]) / 10, S.view[1] - S.view[0]);
  }, { passive: false });
  canvas.addEventListener("keydown", function (e) {
    var step = (S.view[1] - S.view[0]) / 50, sign = e.key === "ArrowLeft" ? -1 : 1;
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    switch (e.key) {
      case "ArrowLeft": case "ArrowRight":
        if (e.shiftKey) { var s = S.span || [S.at, S.at]; if (sign < 0) setSpan(s[0] - step, s[1]); else setSpan(s[0], s[1] + step); }
        else { S.at = Math.min(Math.max(S.at + sign * step, 0), D.ns); changed("at"); }
        break;
      case "+": case "=": zoom(.5, middle()); break;
      case "-": zoom(2, middle()); break;
      case "Enter": zoomToSpan(); break;
      case "Escape": S.span = null; S.thread = -1; changed("span"); break;
      default: return;
    }
    e.preventDefault();
  });

  function told(ns, y) {
    var text = clock(ns, true) + " UTC, +" + since(ns), col = Math.min(Math.floor(ns / D.columns.ns), D.columns.n - 1);
    var k = Math.floor((y - AXIS) / CURVE), i = shown[Math.floor((y - top) / LANE)];
    if (y >= AXIS && k < curves.length && curves[k][1].v[col] >= 0) text += "\n" + curves[k][0] + " " + curves[k][3](curves[k][1].v[col] / 255 * curves[k][1].max);
    if (y >= top && i !== undefined) {
      var c = cellsOf(D.threads[i]);
      text += "\n" + D.threads[i].name + ": " + (c.a[col] === 255 ? "nothing known" : D.states[c.a[col]] + (c.b[col] === 255 ? "" : " and " + D.states[c.b[col]]));
    }
    return text;
  }

  listeners.push(function (what) {
    if (what === "at") return place();
    if (what === "served" || what === "query") return;
    label();
    draw();
  });
  new ResizeObserver(draw).observe(plot);
  label();

  var bar = el("div", { class: "bar noprint" },
    button("+ zoom in", function () { zoom(.5, middle()); }, { id: "zoom-in" }), button("− zoom out", function () { zoom(2, middle()); }, { id: "zoom-out" }),
    button("zoom to the span", zoomToSpan, { id: "zoom-span" }), button("whole time", function () { look(0, D.ns); }, { id: "zoom-all" }),
    button("◀ span back", function () { move(-1); }, { id: "span-back" }), button("span on ▶", function () { move(1); }, { id: "span-on" }), more);
  var hint = el("p", { class: "dim small noprint" }, "Drag over the timeline to choose a span: the flamegraph, threads and requests below are of it. A click chooses the instant of the thread dump, ctrl and wheel zoom, shift and wheel move. A thread's name chooses it.");
  return { node: section("timeline", "Timeline", bar, el("div", { class: "time" }, names, plot), legend(), hint), draw: draw, setSpan: setSpan, look: look, zoomToSpan: zoomToSpan };
}

function legend() {
  return el("div", { class: "legend" }, STATE_ORDER.map(function (s) {
    return el("span", {}, el("i", { style: { background: "var(--s" + s + ")" } }), D.states[s]);
  }));
}
