// What both kinds of pages share: elements, words for figures, colours. Text reaches the document through textContent alone.

// ALL are the processes of the page, D is the one that is shown: the address says which, else the first.
var ALL = [].concat(JSON.parse(document.getElementById("data").textContent));
var D = ALL[+new URLSearchParams(location.hash.slice(1)).get("process")] || ALL[0];

// el makes an element: attributes, "on…" for listeners, children that are elements or texts.
function el(tag, attrs, ...children) {
  var e = document.createElement(tag);
  for (var k in attrs || {}) {
    var v = attrs[k];
    if (v === undefined || v === null || v === false) continue;
    if (k.slice(0, 2) === "on") e.addEventListener(k.slice(2), v);
    else if (k === "style") Object.assign(e.style, v);
    else e.setAttribute(k, v === true ? "" : v);
  }
  for (var c of children.flat(Infinity)) if (c !== null && c !== undefined && c !== false) e.append(c instanceof Node ? c : document.createTextNode(String(c)));
  return e;
}

function button(text, click, attrs) { return el("button", Object.assign({ type: "button", onclick: click }, attrs), text); }

function put(parent, ...children) { parent.replaceChildren(...children.flat(Infinity).filter(Boolean)); return parent; }

function digits(v) { return v >= 100 ? v.toFixed(0) : v >= 10 ? v.toFixed(1) : v.toFixed(2); }

// dur writes ns for people.
function dur(ns) {
  var a = Math.abs(ns);
  if (a >= 59.5e9) { var s = Math.round(a / 1e9); return Math.floor(s / 60) + " min " + s % 60 + " s"; }
  if (a >= 1e9) return digits(a / 1e9) + " s";
  if (a >= 1e6) return digits(a / 1e6) + " ms";
  return digits(a / 1e3) + " µs";
}

function pct(part, whole) {
  if (!whole || !part) return "0 %";
  var p = 100 * part / whole;
  return p < 0.1 ? "<0.1 %" : (p < 10 ? p.toFixed(1) : p.toFixed(0)) + " %";
}

// since writes a time on the page: seconds after its start.
function since(ns, fine) { return (ns / 1e9).toFixed(fine === undefined ? (D.ns < 10e9 ? 3 : 1) : fine) + " s"; }

// codeAt writes code and its place. A template is called by its file and line.
function codeAt(code, file, line) {
  var at = line ? ":" + line : "", template = code.slice(code.lastIndexOf(" ") + 1);
  if (template.indexOf("/") >= 0 && ("/" + file).endsWith("/" + template)) return code + at;
  return code + (file ? " (" + file + at + ")" : "");
}

function two(n, w) { return String(n).padStart(w || 2, "0"); }

// clock is the wall-clock time, UTC.
function clock(ns, fine) {
  var d = new Date(D.startMS + ns / 1e6);
  return two(d.getUTCHours()) + ":" + two(d.getUTCMinutes()) + ":" + two(d.getUTCSeconds()) + (fine ? "." + two(d.getUTCMilliseconds(), 3) : "");
}

function day(ns) {
  var d = new Date(D.startMS + ns / 1e6);
  return d.getUTCFullYear() + "-" + two(d.getUTCMonth() + 1) + "-" + two(d.getUTCDate());
}

function color(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

// themeButton goes from the system's colours to dark ones, light ones, and back. redraw draws what is not made of elements.
function themeButton(redraw) {
  var names = ["auto", "dark", "light"], at = 0;
  var b = button("colours: auto", function () {
    at = (at + 1) % names.length;
    if (at) document.documentElement.setAttribute("data-theme", names[at]);
    else document.documentElement.removeAttribute("data-theme");
    b.textContent = "colours: " + names[at];
    redraw();
  }, { id: "theme" });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  return b;
}

// matcher makes a test of names: a regular expression where the text is one, else the text itself; null for none.
function matcher(text) {
  if (!text) return null;
  try {
    var re = new RegExp(text, "i");
    return function (s) { return re.test(s); };
  } catch (e) {
    var low = text.toLowerCase();
    return function (s) { return s.toLowerCase().indexOf(low) >= 0; };
  }
}

// table makes one whose columns sort: {head, num, sort: row → value, cell: row → text or element}. by is the column it is sorted by
// at first, in falling order; -1: as the rows come.
function table(id, columns, rows, by, row) {
  var order = { by: by, down: true };
  var head = el("tr"), body = el("tbody");
  function draw() {
    var list = rows.slice();
    if (order.by >= 0) {
      var key = columns[order.by].sort;
      list.sort(function (x, y) {
        var a = key(x), b = key(y), d = a < b ? -1 : a > b ? 1 : 0;
        return order.down ? -d : d;
      });
    }
    columns.forEach(function (c, i) {
      if (i === order.by) head.children[i].setAttribute("aria-sort", order.down ? "descending" : "ascending");
      else head.children[i].removeAttribute("aria-sort");
    });
    put(body, list.map(function (r) {
      var tr = el("tr", {}, columns.map(function (c) {
        var v = c.cell(r);
        return el("td", { class: c.num ? "n" : c.wide ? "wide" : null }, v);
      }));
      if (row) row(tr, r);
      return tr;
    }));
  }
  columns.forEach(function (c, i) {
    head.append(el("th", { class: c.num ? "n" : c.wide ? "wide" : null, scope: "col" }, !c.sort ? c.head : button(c.head, function () {
      if (order.by === i) order.down = !order.down;
      else { order.by = i; order.down = !!c.num; }
      draw();
    }, { title: "sort by " + c.head })));
  });
  draw();
  return el("div", { class: "tablebox" }, el("table", { id: id }, el("thead", {}, head), body));
}

// mix is a bar of time by state.
function mix(ns, states) {
  var sum = ns.reduce(function (a, b) { return a + b; }, 0), words = [];
  var bar = el("div", { class: "mix" });
  if (sum) STATE_ORDER.forEach(function (s) {
    if (!ns[s]) return;
    bar.append(el("i", { style: { width: 100 * ns[s] / sum + "%", background: "var(--s" + s + ")" } }));
    words.push(states[s] + " " + pct(ns[s], sum));
  });
  bar.title = words.join(", ");
  bar.setAttribute("role", "img");
  bar.setAttribute("aria-label", bar.title);
  return bar;
}

function section(id, title, ...children) {
  return el("section", { id: id, "aria-labelledby": id + "-h" }, el("h2", { id: id + "-h" }, title), children);
}
