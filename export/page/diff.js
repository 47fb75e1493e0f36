// The page of a difference: by state, by function, a flamegraph of either with the change as colour.

(function () {
  var side = 1, idleToo = false, sums = D.byState.reduce(function (a, s, i) { return D.idle[i] ? a : [a[0] + s[0], a[1] + s[1]]; }, [0, 0]);
  function value(v) { return D.time ? digits(v / 1e3) + " ms/s" : digits(v / 1e3) + " /s"; }
  function change(a, b) {
    var d = b - a, sign = d < 0 ? "−" : "+";
    return !d ? "±0" : sign + value(Math.abs(d)) + (a ? b ? " (" + (b > 10 * a ? "× " + digits(b / a) : sign + pct(Math.abs(d), a)) + ")" : " (gone)" : " (new)");
  }
  // tone goes from blue (less) over grey to vermilion (more): the ends differ for all eyes. A fifth of the whole is the full colour.
  function tone(a, b) {
    var whole = Math.max(sums[0], sums[1]) || 1, s = Math.min(Math.sqrt(Math.abs(b - a) / whole / .2), 1);
    return "color-mix(in srgb,var(--" + (b < a ? "o2" : "s4") + ") " + Math.round(100 * s) + "%,var(--o0))";
  }
  function node(f, up) { return { f: f, up: up, total: 0, v: [0, 0], kids: new Map(), depth: up ? up.depth + 1 : 0 }; }
  function tree() {
    var root = node(-3, null), paths = new Map();
    function path(i) {
      var p = paths.get(i);
      if (p) return p;
      p = [];
      for (var k = i; k >= 0; k = caller(k)) p.unshift(functionOf(k));
      paths.set(i, p);
      return p;
    }
    for (var i = 0; i < D.stacks.length; i += 4) {
      if (D.idle[D.stacks[i + 1]] && !idleToo) continue;
      var a = D.stacks[i + 2], b = D.stacks[i + 3], n = root;
      add(n);
      path(D.stacks[i]).forEach(function (f) {
        var k = n.kids.get(f);
        if (!k) n.kids.set(f, k = node(f, n));
        n = k;
        add(n);
      });
    }
    function add(n) { n.v[0] += a; n.v[1] += b; n.total += side === 2 ? Math.max(a, b) : [a, b][side]; }
    return root;
  }
  var root = null;
  var flame = flameBox("flame", function (n) {
    return (n.f === -3 ? "all" : nameOf(n.f)) + "\nbefore " + value(n.v[0]) + ", after " + value(n.v[1]) + ", change " + change(n.v[0], n.v[1]);
  }, function (n) { return n.f === -3 ? "var(--o0)" : tone(n.v[0], n.v[1]); });
  function update() { root = tree(); flame.set(root); }

  var search = el("input", { type: "search", id: "search", placeholder: "search functions (/)", "aria-label": "search functions", oninput: function () {
    var m = matcher(search.value);
    flame.mark(m && function (n) { return m(nameOf(n.f)); });
    list();
  } });
  var sides = el("select", { id: "side", onchange: function () { side = +sides.value; update(); } }, el("option", { value: 1 }, "after (B)"), el("option", { value: 0 }, "before (A)"), el("option", { value: 2 }, "the larger of both"));
  var functions = el("div");
  function list() {
    var rows = [], m = matcher(search.value);
    for (var i = 0; i < D.functions.length; i += 5) rows.push(D.functions.slice(i, i + 5));
    if (m) rows = rows.filter(function (r) { return m(nameOf(r[0])); });
    function col(head, at) { return { head: head, num: true, sort: function (r) { return r[at]; }, cell: function (r) { return value(r[at]); } }; }
    function delta(head, at) {
      return { head: head, num: true, sort: function (r) { return Math.abs(r[at + 1] - r[at]); }, cell: function (r) {
        return el("span", { class: r[at + 1] > r[at] ? "more" : r[at + 1] < r[at] ? "less" : null }, change(r[at], r[at + 1]));
      } };
    }
    put(functions, table("functions-table", [
      { head: "function", sort: function (r) { return nameOf(r[0]); }, cell: function (r) {
        return button(nameOf(r[0]), function () { search.value = "^" + nameOf(r[0]).replace(/[.*+?^${}()|[\]\\]/g, "\\$&") + "$"; search.dispatchEvent(new Event("input")); }, { class: "link" });
      } },
      col("itself, A", 1), col("B", 2), delta("change", 1), col("with callees, A", 3), col("B", 4), delta("change", 3)
    ], rows, 3));
  }
  document.body.append(
    el("header", {}, el("div", {}, el("h1", {}, "Difference"), el("p", {}, "A  " + D.a), el("p", {}, "B  " + D.b),
      el("p", { class: "dim" }, D.metric + (D.time ? ", ms a second of elapsed time; 1,000 is one thread all the time" : " a second") + ": both are divided by the time that was measured")),
      el("div", { class: "noprint" }, themeButton(function () { }))),
    el("main", {}, section("states", "By state", table("states-table", [
      { head: "state", sort: function (r) { return r[0]; }, cell: function (r) { return r[0]; } },
      { head: "A", num: true, sort: function (r) { return r[1]; }, cell: function (r) { return value(r[1]); } },
      { head: "B", num: true, sort: function (r) { return r[2]; }, cell: function (r) { return value(r[2]); } },
      { head: "change", num: true, sort: function (r) { return Math.abs(r[2] - r[1]); }, cell: function (r) { return el("span", { class: r[2] > r[1] ? "more" : r[2] < r[1] ? "less" : null }, change(r[1], r[2])); } }
    ], D.states.map(function (s, i) { return [s, D.byState[i][0], D.byState[i][1]]; }), 3)),
      section("code", "By stack", el("div", { class: "bar noprint" }, el("label", {}, "widths are those of", sides),
        D.idle.some(Boolean) ? el("label", {}, el("input", { type: "checkbox", id: "idle", onchange: function (e) { idleToo = e.target.checked; update(); } }), "parked and sleeping threads, too") : null,
        search, button("reset zoom", function () { flame.reset(); }, { id: "reset" })),
        el("div", { class: "legend" }, [["var(--o2)", "less in B"], ["var(--o0)", "as before"], ["var(--s4)", "more in B"]].map(function (l) {
          return el("span", {}, el("i", { style: { background: l[0] } }), l[1]);
        })), flame.box, flame.about),
      section("by-function", "By function" + (D.idle.some(Boolean) ? ", without parked and sleeping threads" : ""), functions),
      D.limits.length ? section("limits", "What is not here", el("ul", { class: "plain" }, D.limits.map(function (l) { return el("li", {}, l); }))) : null));
  document.addEventListener("keydown", function (e) {
    if (e.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) { e.preventDefault(); search.focus(); }
  });
  list();
  update();
  document.documentElement.setAttribute("data-ready", "1");
})();
