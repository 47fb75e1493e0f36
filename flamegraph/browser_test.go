package flamegraph

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// driver is a script that clicks, searches and hovers like a person, and reports what the page then shows.
const driver = `<script><![CDATA[
(function () {
  var out = [], gs = document.querySelectorAll("#frames g");
  function find(label) {
    for (var i = 0; i < gs.length; i++)
      if (gs[i].querySelector("title").textContent.split("\n")[0] === label) return gs[i];
  }
  function text(id) { return document.getElementById(id).textContent; }
  function fire(el, type) { el.querySelector("rect").dispatchEvent(new MouseEvent(type, { bubbles: true })); }
  function key(k) { window.dispatchEvent(new KeyboardEvent("keydown", k)); }
  function state(name) {
    var shown = [];
    gs.forEach(function (g) {
      if (g.style.display !== "none")
        shown.push(g.querySelector("text").textContent + "=" + Math.round(g.querySelector("rect").getAttribute("width")) + (g.classList.contains("up") ? "^" : ""));
    });
    out.push(name + ": " + shown.join(" ") + " | " + text("matched"));
  }
  state("start");
  fire(find("Reports.loop"), "click");
  state("zoomed");
  window.prompt = function () { return "json"; };
  key({ key: "f", ctrlKey: true });
  state("found");
  fire(find("JSON.generate"), "mouseover");
  out.push("details: " + text("details"));
  key({ key: "Escape" });
  key({ key: "Escape" });
  state("reset");
  window.prompt = function () { return "("; };
  key({ key: "/" });
  out.push(text("matched").slice(0, 24));
  var p = document.createElementNS("http://www.w3.org/2000/svg", "desc");
  p.setAttribute("id", "report");
  p.textContent = "\n" + out.join("\n") + "\n";
  document.documentElement.appendChild(p);
})();
]]></script>
</svg>`

// TestSVGInBrowser lets a real browser run the picture's script, if there is a browser.
func TestSVGInBrowser(t *testing.T) {
	if raceDivisor > 1 {
		t.Skip("what a browser does, which the race detector has nothing to do with")
	}
	rubytest.Long(t)
	browser := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			browser = p
			break
		}
	}
	if browser == "" {
		t.Skip("needs a browser: apt-get install chromium")
	}
	d, s := shop()
	svg := svgOf(t, NewBuilder(d).Build(s, Options{}), "browser", svgMinWidth)
	file := filepath.Join(t.TempDir(), "flame.svg")
	if err := os.WriteFile(file, bytes.Replace(svg, []byte("</svg>"), []byte(driver), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "--user-data-dir="+t.TempDir(), "file://"+file)
	dom, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", browser, err)
	}
	_, report, ok := strings.Cut(string(dom), `<desc id="report">`)
	report, _, closed := strings.Cut(report, "</desc>")
	if !ok || !closed {
		t.Fatalf("the script did not get through:\n%s", dom[max(0, len(dom)-2000):])
	}
	want := `
start: all=1180 (no …=45 &lt;main&gt;=1135 Array#map=76 Reports.loop=1059 Reports#build=1059 Array#map=303 Reports#build=303 JSON.generate=303 JSON.generate=605 |  
zoomed: all=1180^ &lt;main&gt;=1180^ Reports.loop=1180 Reports#build=1180 Array#map=337 Reports#build=337 JSON.generate=337 JSON.generate=674 |  
found: all=1180^ &lt;main&gt;=1180^ Reports.loop=1180 Reports#build=1180 Array#map=337 Reports#build=337 JSON.generate=337 JSON.generate=674 | matched 85.7 % · esc clears
details: JSON.generate · /srv/gems/json-2.9/lib/json.rb:1 · 200 ns, 25.6 % of all · waiting 100 %
reset: all=1180 (no …=45 &lt;main&gt;=1135 Array#map=76 Reports.loop=1059 Reports#build=1059 Array#map=303 Reports#build=303 JSON.generate=303 JSON.generate=605 |  
not a regular expression
`
	if report != want {
		t.Errorf("got %s\nwant %s", report, want)
	}
}
