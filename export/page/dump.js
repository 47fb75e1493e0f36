// Thread dumps: of the instant chosen, as near as one was kept.

function dump() {
  if (!D.dumps.length) return { node: section("dump", "Threads at an instant", absent("thread dumps", "No sample has stacks.")), update: function () { } };
  var head = el("p", { id: "dump-time" }), body = el("div", { id: "dump-threads" }), state = el("div"), shown = -1;
  var range = el("input", { type: "range", id: "instant", min: 0, max: D.dumps.length - 1, step: 1, "aria-label": "instant", oninput: function () { S.at = D.dumps[range.value].at; changed("at"); } });
  var filter = el("input", { type: "search", id: "dump-search", placeholder: "threads, states, functions", "aria-label": "filter threads", oninput: function () { shown = -1; update(); } });
  var resting = el("input", { type: "checkbox", id: "resting", onchange: function () { shown = -1; update(); } });

  function nearest() {
    var best = 0;
    D.dumps.forEach(function (d, i) { if (Math.abs(d.at - S.at) < Math.abs(D.dumps[best].at - S.at)) best = i; });
    return best;
  }
  function frames(node) {
    var out = [];
    for (; node >= 0; node = D.lines[3 * node] ? node - D.lines[3 * node] : -1) out.push([D.lines[3 * node + 1], D.lines[3 * node + 2]]);
    return out;
  }
  function frameText(f) {
    var file = D.names[f[0]][1] < 0 ? "" : D.files[D.names[f[0]][1]];
    return codeAt(nameOf(f[0]), file, f[1]);
  }
  function update() {
    var n = nearest(), d = D.dumps[n];
    if (n === shown) return;
    var open = new Set(Array.from(body.querySelectorAll("details[open]"), function (e) { return e.getAttribute("data-thread"); })), first = shown < 0 && !open.size;
    shown = n;
    range.value = n;
    head.textContent = clock(d.at, true) + " UTC, +" + since(d.at, 3) + (Math.abs(d.at - S.at) > 1e6 ? ", the instant kept that is nearest to the one chosen, +" + since(S.at, 3) : "") + " (" + (n + 1) + " of " + D.dumps.length + ")";
    put(state, el("ul", { class: "plain" }, d.gvl.map(function (g) { return el("li", {}, g); }),
      d.dead.map(function (c) { return el("li", {}, el("b", {}, "Deadlock: "), c); }),
      d.locks.map(function (l) {
        return el("li", {}, l.text, l.holder >= 0 ? [", held by ", threadLink(l.holder)] : null, ", waited for by ", l.waiters.map(function (w, i) { return [i ? ", " : "", threadLink(w)]; }));
      })));
    var m = matcher(filter.value), list = [], left = 0;
    for (var i = 0; i < d.threads.length; i += 6) {
      var t = { thread: d.threads[i], state: d.threads[i + 1], text: D.texts[d.threads[i + 2]], ns: d.threads[i + 3] * 1e3, frames: frames(d.threads[i + 4]), notes: D.texts[d.threads[i + 5]] };
      t.name = t.thread < 0 ? "(a thread without a lane)" : D.threads[t.thread].name;
      if (m && !m(t.name) && !m(t.text) && !m(t.notes) && !t.frames.some(function (f) { return m(frameText(f)); })) continue;
      if (!m && !resting.checked && rests(t.state) && t.thread !== S.thread) { left++; continue; }
      list.push(t);
    }
    list.sort(function (a, b) { return (b.thread === S.thread) - (a.thread === S.thread) || STATE_ORDER.indexOf(a.state) - STATE_ORDER.indexOf(b.state) || b.ns - a.ns; });
    put(body, list.map(function (t, i) {
      var inner = t.frames.find(function (f) { return own(f[0]); }) || t.frames[0];
      return el("details", { "data-thread": t.thread, open: open.has(String(t.thread)) || first && i === 0 || m && list.length < 4 || t.thread === S.thread },
        el("summary", {}, el("i", { style: { background: "var(--s" + t.state + ")" } }), el("b", {}, t.name), "  " + t.text + (t.ns ? " (" + dur(t.ns) + ")" : ""), inner ? el("span", { class: "dim" }, "  " + nameOf(inner[0])) : null),
        t.notes ? el("p", { class: "dim small" }, t.notes) : null,
        el("div", { class: "stack" }, t.frames.length ? t.frames.map(function (f) { return el("div", { class: own(f[0]) ? null : "lib" }, frameText(f)); }) : "(no Ruby frames)"));
    }), left ? el("p", { class: "dim small" }, left + " that rest are left out") : null);
  }
  function step(by) { return function () { S.at = D.dumps[Math.min(Math.max(nearest() + by, 0), D.dumps.length - 1)].at; changed("at"); }; }
  listeners.push(function (what) {
    if (what === "view" || what === "query" || what === "served") return;
    if (what === "thread" || what === "goto") shown = -1;
    update();
  });
  var bar = el("div", { class: "bar noprint" }, button("◀", step(-1), { id: "before", "aria-label": "instant before" }), range, button("▶", step(1), { id: "after", "aria-label": "instant after" }), filter, el("label", {}, resting, "threads at rest, too"));
  return { node: section("dump", "Threads at an instant", bar, head, state, body), update: update };
}
