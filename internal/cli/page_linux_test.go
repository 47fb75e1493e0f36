package cli_test

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// pageOf writes the HTML page of a recording of the bundled program, and returns the page's path.
func pageOf(t *testing.T, recording string, flags ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), recording+".html")
	run(t, append([]string{"report", pictured(recording), "-o", file}, flags...)...).want(t, 0)
	return file
}

// pictured returns the path of one of the recordings from which the project's screenshots are made.
func pictured(recording string) string {
	return filepath.Join("..", "..", "screenshots", "recordings", recording+".ddtop")
}

// TestPageInBrowser opens the HTML pages of recorded incidents in a browser, clicks through them, and checks what they
// show.
func TestPageInBrowser(t *testing.T) {
	rubytest.Long(t)
	b := startBrowser(t)
	b.open(pageOf(t, "hog"), false)
	b.step(t, "a finding leads to its time, thread and code", func() {
		b.click("#findings .go-time")
		b.until(`document.querySelector("#scope .chip")`)
		b.click("#findings .go-thread")
		b.until(`document.querySelector("#scope").textContent.includes("thread ")`)
		b.until(`document.querySelector("#timeline .names button[aria-pressed=true]")`)
		b.click("#findings .go-code")
		b.until(`document.querySelector("#flame .cell.hit") && document.querySelector("#matched").textContent.startsWith("matched")`)
		if hash, _ := b.js("location.hash").(string); !strings.Contains(hash, "from=") || !strings.Contains(hash, "search=") {
			t.Errorf("the address has %q", hash)
		}
		b.click("#clear")
		b.until(`document.querySelector("#scope").textContent.includes("whole time") && !document.querySelector("#flame .cell.hit")`)
	})
	b.step(t, "a span is dragged, moved, zoomed to and taken away", func() {
		whole := b.text("#flame-span")
		b.drag("#lanes", .25, .5)
		b.until(`document.querySelector("#scope .chip") && document.querySelector("#flame-span").textContent.includes("(the span")`)
		span := b.text("#flame-span")
		b.click("#span-on")
		b.until(`document.querySelector("#flame-span").textContent !== ` + quoted(span))
		view := b.view()
		b.click("#zoom-span")
		b.until(`document.querySelector("#lanes").dataset.view !== ` + quoted(view))
		near := b.view()
		b.click("#zoom-in")
		b.until(`document.querySelector("#lanes").dataset.view !== ` + quoted(near))
		b.click("#zoom-all")
		b.until(`document.querySelector("#lanes").dataset.view === ` + quoted(view))
		b.js(`document.querySelector("#lanes").focus()`)
		b.key("Escape", "")
		b.until(`document.querySelector("#flame-span").textContent === ` + quoted(whole))
		b.key("+", "+")
		b.until(`document.querySelector("#lanes").dataset.view !== ` + quoted(view))
		b.click("#zoom-all")
	})
	b.step(t, "a click on the timeline chooses the instant of the dump", func() {
		last := b.text("#dump-time")
		b.click("#lanes")
		b.until(`document.querySelector("#dump-time").textContent !== ` + quoted(last))
		middle := b.text("#dump-time")
		b.click("#after")
		b.until(`document.querySelector("#dump-time").textContent !== ` + quoted(middle))
		b.click("#dump-search")
		b.typed("Reports")
		b.until(`Array.from(document.querySelectorAll("#dump-threads details")).length > 0 && Array.from(document.querySelectorAll("#dump-threads details")).every(e => e.textContent.includes("Reports"))`)
	})
	b.step(t, "the flamegraph zooms, searches and changes its weight", func() {
		b.until(`document.querySelectorAll("#flame .cell").length > 5`)
		b.click(`#flame .cell[data-i="4"]`)
		b.until(`document.querySelectorAll("#flame .cell.up").length > 0`)
		b.click("#reset")
		b.until(`document.querySelectorAll("#flame .cell.up").length === 0`)
		b.key("/", "/")
		b.until(`document.activeElement.id === "search"`)
		b.typed("reports.*\\.rb")
		b.until(`document.querySelector("#flame .cell.hit")`)
		b.key("Escape", "")
		b.until(`!document.querySelector("#flame .cell.hit")`)
		cells := b.text("#flame")
		b.js(`(function () { var e = document.querySelector("#metric"); e.value = "wait"; e.dispatchEvent(new Event("change")); })()`)
		b.until(`document.querySelector("#flame-span").textContent.startsWith("waiting for the GVL")`)
		b.js(`(function () { var e = document.querySelector("#metric"); e.value = "busy"; e.dispatchEvent(new Event("change")); })()`)
		b.until(`document.querySelector("#flame").textContent === ` + quoted(cells))
		b.click("#inverted")
		b.until(`document.querySelector("#flame").textContent !== ` + quoted(cells))
		b.click("#inverted")
		b.click("#own")
		b.until(`document.querySelectorAll("#flame .cell").length > 1`)
		b.click("#own")
	})
	b.step(t, "colours", func() {
		ground := `getComputedStyle(document.body).backgroundColor`
		light := b.js(ground)
		b.click("#theme")
		b.until(ground + ` !== "` + light.(string) + `"`)
		b.click("#theme")
		b.until(ground + ` === "` + light.(string) + `"`)
	})
	b.open(pageOf(t, "requests"), true)
	b.step(t, "requests sort, and one route is chosen", func() {
		column := `Array.from(document.querySelectorAll("#routes tbody tr"), r => +r.children[1].textContent)`
		b.until(column + `.length > 1`)
		b.click("#routes th:nth-child(2) button")
		b.until(column + `.every((v, i, a) => !i || a[i-1] >= v) && document.querySelector("#routes th:nth-child(2)").getAttribute("aria-sort") === "descending"`)
		b.click("#routes th:nth-child(2) button")
		b.until(column + `.every((v, i, a) => !i || a[i-1] <= v)`)
		b.click("#routes tbody button.link")
		b.until(`document.querySelector("#scope .chip")`)
		if b.js(`getComputedStyle(document.body).backgroundColor`) != "rgb(20, 23, 28)" {
			t.Errorf("a browser that wants dark colours has %v", b.js(`getComputedStyle(document.body).backgroundColor`))
		}
	})
	b.open(pageOf(t, "native"), false)
	b.step(t, "C functions are below their Ruby method, and in no folded row", func() {
		choose := func(code string) {
			b.js(`(function () { var e = document.querySelector("#own"); e.value = "` + code + `"; e.dispatchEvent(new Event("change")); })()`)
		}
		cells := func(name string) string {
			return `Array.from(document.querySelectorAll("#flame .cell")).filter(e => e.textContent === "` + name + `")`
		}
		width := func(name string) int {
			n, _ := b.js(`Math.round(` + cells(name) + `.reduce((n, e) => n + parseFloat(e.style.width), 0))`).(float64)
			return int(n)
		}
		b.until(cells("PQgetResult") + `.length > 0`)
		b.until(cells("PQgetResult") + `.every(c => ` + cells("PG::Connection#sync_exec") + `.some(r => parseFloat(r.style.top) < parseFloat(c.style.top) &&
			parseFloat(r.style.left) <= parseFloat(c.style.left) + 1 &&
			parseFloat(r.style.left) + parseFloat(r.style.width) + 1 >= parseFloat(c.style.left) + parseFloat(c.style.width)))`)
		b.until(`Array.from(document.querySelectorAll("#flame .cell")).every(e => !e.textContent.startsWith("⋯") || !e.textContent.includes("(C)"))`)
		folded := width("PQgetResult")
		choose("all")
		b.until(`!document.querySelector("#flame").textContent.includes("⋯")`)
		if all := width("PQgetResult"); folded == 0 || all < folded-1 || all > folded+1 {
			t.Errorf("PQgetResult is %d pixels wide with own code first, and %d with all frames", folded, all)
		}
		choose("only")
		b.until(cells("PQgetResult") + `.length === 0 && document.querySelectorAll("#flame .cell").length > 1`)
		choose("first")
		b.until(cells("PQgetResult") + `.length > 0`)
		b.click("#inverted")
		b.until(cells("PQgetResult") + `.length === 0 && document.querySelectorAll("#flame .cell").length > 1`)
		b.click("#inverted")
	})
	counted := filepath.Join(t.TempDir(), "counted.html")
	p := rubytest.One(t).Start(t, heapProgram, rubytest.Options{})
	p.Expect(t, "ready")
	run(t, "record", strconv.Itoa(p.PID), "-d", "300ms", "--heap", "-o", counted).want(t, 0)
	b.step(t, "a page without a count of objects has no table of them", func() { b.until(`!document.querySelector("#objects")`) })
	b.open(counted, false)
	b.step(t, "objects by class", func() {
		b.until(`Array.from(document.querySelectorAll("#objects-table tbody tr")).some(r => r.textContent.startsWith("Order4321"))`)
	})
	difference := filepath.Join(t.TempDir(), "difference.html")
	run(t, "diff", pictured("healthy"), pictured("hog"), "-o", difference).want(t, 0)
	b.open(difference, false)
	b.step(t, "a difference", func() {
		b.until(`document.querySelectorAll("#flame .cell").length > 5 && document.querySelector("#states-table").textContent.includes("waiting")`)
		cells := b.text("#flame")
		b.js(`(function () { var e = document.querySelector("#side"); e.value = "0"; e.dispatchEvent(new Event("change")); })()`)
		b.until(`document.querySelector("#flame").textContent !== ` + quoted(cells))
		b.click("#functions-table tbody button.link")
		b.until(`document.querySelectorAll("#functions-table tbody tr").length < 5 && document.querySelector("#flame .cell.hit")`)
		b.click("#idle")
	})
	b.t = t
	b.clean()
}

// view returns which span of time the page's timeline shows, as text.
func (b *browser) view() string {
	b.t.Helper()
	s, _ := b.js(`document.querySelector("#lanes").dataset.view`).(string)
	return s
}

// step runs a part of a test. It begins with the page as the previous step left it.
func (b *browser) step(t *testing.T, name string, fn func()) {
	t.Helper()
	if !t.Run(name, func(t *testing.T) { b.t = t; fn() }) {
		t.FailNow()
	}
	b.t = t
}

func quoted(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`, "\n", `\n`).Replace(s) + "'"
}

// TestPageOfSeveralProcessesInBrowser: a page of two processes first shows the busy process. If the user chooses the
// idle process, the page shows that process.
func TestPageOfSeveralProcessesInBrowser(t *testing.T) {
	rubytest.Long(t)
	c := startCluster(t)
	file := filepath.Join(t.TempDir(), "page.html")
	run(t, "record", "-p", fmt.Sprintf("%d,%d", c.first, c.second), "-d", "2s", "-o", file).want(t, 0)
	b := startBrowser(t)
	b.open(file, false)
	b.step(t, "the process that took most CPU time comes first", func() {
		if head := b.text("h1"); !strings.HasSuffix(head, fmt.Sprintf("[%d]", c.second)) {
			t.Errorf("the head is %q", head)
		}
		b.until(`document.querySelectorAll("#process option").length === 2`)
	})
	b.step(t, "another is chosen", func() {
		b.js(`(function () {
			var e = document.querySelector("#process");
			e.value = "1";
			e.dispatchEvent(new Event("change"));
		})()`)
		b.until(`document.documentElement.getAttribute("data-ready") === "1" &&
			document.querySelector("h1").textContent.endsWith(` + quoted(fmt.Sprintf("[%d]", c.first)) + `)`)
		b.until(`document.querySelector("#process").value === "1"`)
		if hash, _ := b.js("location.hash").(string); !strings.Contains(hash, "process=1") {
			t.Errorf("the address has %q", hash)
		}
	})
}
