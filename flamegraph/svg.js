"use strict";
// Zoom, search and details of a ddtop flame graph. All data is read from the elements' attributes.
(function () {
  var svg = document.documentElement;
  var box = document.getElementById("frames");
  var X0 = +box.dataset.x0, W = +box.dataset.w;
  var details = document.getElementById("details"), matched = document.getElementById("matched");
  var reset = document.getElementById("reset"), search = document.getElementById("search");
  var nodes = Array.prototype.map.call(box.children, function (g) {
    var rect = g.querySelector("rect"), text = g.querySelector("text");
    return {
      g: g, rect: rect, text: text, x: +rect.getAttribute("x"), w: +rect.getAttribute("width"), d: +g.dataset.d,
      label: "l" in g.dataset ? g.dataset.l : text.textContent, title: g.querySelector("title").textContent
    };
  });
  var root = nodes[0], zoomed = root, pattern = null;
  nodes.forEach(function (n) { n.g.__node = n; });

  // The width of a character in the font that the browser chose.
  var probe = nodes[0].text, saved = probe.textContent;
  probe.textContent = "MMMMMMMMMMMMMMMMMMMM";
  var charWidth = probe.getComputedTextLength() / 20 || 6.7;
  probe.textContent = saved;

  // The longest form of a label that fits: the method's name stays readable longest.
  function fit(label, width) {
    var max = Math.floor((width - 6) / charWidth);
    if (max < 2) return "";
    if (label.length <= max) return label;
    var rest = label.replace(/^(block|rescue|ensure|eval)( \(\d+ levels\))? in /, "");
    if (rest.length <= max) return rest;
    var m = /^([A-Z\u0080-\uffff][\w:\u0080-\uffff]*)([#.].+)$/.exec(rest);
    if (m) {
      var cls = m[1];
      for (var i = cls.indexOf("::"); i >= 0; i = cls.indexOf("::")) {
        cls = cls.slice(i + 2);
        if ((cls + m[2]).length <= max) return cls + m[2];
      }
      if (m[2].length <= max) return m[2];
      rest = m[2].slice(1);
      if (rest.length <= max) return rest;
    }
    return rest.slice(0, max - 1) + "\u2026";
  }

  function place(n, x, w, up) {
    n.g.style.display = "";
    n.g.classList.toggle("up", up);
    n.rect.setAttribute("x", x);
    n.rect.setAttribute("width", w);
    n.text.setAttribute("x", Math.max(x, X0) + 3);
    n.text.textContent = fit(n.label, w);
  }

  function zoom(z) {
    zoomed = z;
    var eps = 0.0015, scale = W / z.w; // positions are rounded to 0.001
    nodes.forEach(function (n) {
      if (n.d < z.d && n.x <= z.x + eps && n.x + n.w >= z.x + z.w - eps) {
        place(n, X0, W, true);
      } else if (n.d >= z.d && n.x >= z.x - eps && n.x + n.w <= z.x + z.w + eps && !(n.d === z.d && n !== z)) {
        place(n, X0 + (n.x - z.x) * scale, n.w * scale, false);
      } else {
        n.g.style.display = "none";
      }
    });
    reset.setAttribute("visibility", z === root ? "hidden" : "visible");
    count();
  }

  // The share of the zoomed width under matching frames: a match under a match counts once.
  function count() {
    if (!pattern) { matched.textContent = " "; return; }
    var hits = nodes.filter(function (n) {
      return n.g.classList.contains("hit") && n.g.style.display !== "none" && n.d >= zoomed.d;
    }).sort(function (a, b) { return a.x - b.x || b.w - a.w; });
    var sum = 0, end = -1;
    hits.forEach(function (n) {
      if (n.x + n.w <= end + 0.0015) return;
      sum += n.x + n.w - Math.max(n.x, end);
      end = n.x + n.w;
    });
    matched.textContent = "matched " + (100 * Math.min(1, sum / zoomed.w)).toFixed(1) + " % · esc clears";
  }

  function find(source) {
    pattern = null;
    if (source) {
      try { pattern = new RegExp(source, "i"); } catch (e) {
        matched.textContent = "not a regular expression: " + e.message;
        return;
      }
    }
    nodes.forEach(function (n) {
      var head = n.title.split("\n").slice(0, 2).join("\n");
      n.g.classList.toggle("hit", !!pattern && n !== root && !n.g.dataset.more && pattern.test(head));
    });
    count();
  }

  function ask() {
    var s = window.prompt("Search frames and files (regular expression):", pattern ? pattern.source : "");
    if (s !== null) find(s);
  }

  function nodeOf(e) {
    for (var el = e.target; el && el !== svg; el = el.parentNode) if (el.__node) return el.__node;
    return null;
  }

  box.addEventListener("click", function (e) {
    var n = nodeOf(e);
    if (n && !n.g.dataset.more) zoom(n);
  });
  box.addEventListener("mouseover", function (e) {
    var n = nodeOf(e);
    details.textContent = n ? n.title.split("\n").join(" · ") : " ";
  });
  box.addEventListener("mouseout", function () { details.textContent = " "; });
  reset.addEventListener("click", function () { zoom(root); });
  search.addEventListener("click", ask);
  [reset, search].forEach(function (b) {
    b.addEventListener("keydown", function (e) {
      if (e.key === "Enter" || e.key === " ") { e.preventDefault(); e.stopPropagation(); b === reset ? zoom(root) : ask(); }
    });
  });
  window.addEventListener("keydown", function (e) {
    if ((e.ctrlKey || e.metaKey) && e.key === "f" || e.key === "/") { e.preventDefault(); ask(); }
    if (e.key === "Escape") { if (pattern) find(""); else zoom(root); }
  });
  zoom(root);
})();
