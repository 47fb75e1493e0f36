package cli_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// browser is a real browser without a window. Tests control it through its debugging pipe. A click goes to the topmost
// element at a place, as if a person clicked. browser collects the errors that a page logs or throws.
type browser struct {
	t       *testing.T
	to      *os.File
	mu      sync.Mutex
	next    int
	waiting map[int]chan browserAnswer
	session string
	errors  []string
	over    chan struct{}
}

type browserAnswer struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

// browserPatience limits how long a test waits for a page. On a busy machine a step of milliseconds can take seconds.
const browserPatience = 3 * time.Minute

func startBrowser(t *testing.T) *browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		t.Skip("needs a browser: apt-get install chromium")
	}
	fromTest, toTest := pipePair(t)
	fromBrowser, toBrowser := pipePair(t)
	cmd := exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage", "--no-first-run",
		"--user-data-dir="+t.TempDir(), "--window-size=1280,900", "--remote-debugging-pipe", "about:blank")
	cmd.ExtraFiles = []*os.File{fromTest, toBrowser}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fromTest.Close()
	toBrowser.Close()
	b := &browser{t: t, to: toTest, waiting: make(map[int]chan browserAnswer), over: make(chan struct{})}
	here := make(chan browserAnswer, 1)
	b.waiting[1], b.next = here, 1
	go b.read(fromBrowser)
	t.Cleanup(func() {
		toTest.Close() // the browser ends when its pipe is closed
		ended := make(chan struct{})
		go func() { cmd.Wait(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			cmd.Process.Kill()
			<-ended
		}
		fromBrowser.Close()
	})
	_, _ = b.to.Write([]byte("{\"id\":1,\"method\":\"Browser.getVersion\"}\x00")) // this fails if the browser has ended
	select {
	case <-here:
	case <-b.over:
		t.Skipf("%s does not start here", path)
	}
	return b
}

// pipePair returns both ends of a pipe. They are closed when the test ends.
func pipePair(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

func (b *browser) read(from *os.File) {
	defer close(b.over)
	for r := bufio.NewReader(from); ; {
		text, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m struct {
			ID     int
			Method string
			Params json.RawMessage
			browserAnswer
		}
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue
		}
		b.mu.Lock()
		switch m.Method {
		case "Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled":
			b.errors = append(b.errors, m.Method+" "+string(m.Params))
		}
		if c := b.waiting[m.ID]; m.ID != 0 && c != nil {
			delete(b.waiting, m.ID)
			c <- m.browserAnswer
		}
		b.mu.Unlock()
	}
}

// do sends a command to the browser and returns its result. An error fails the test.
func (b *browser) do(method string, params map[string]any) json.RawMessage {
	b.t.Helper()
	a := b.ask(method, params)
	if a.Error != nil {
		b.t.Fatalf("%s: %s", method, a.Error.Message)
	}
	return a.Result
}

// ask is like do, but returns the browser's answer even if the answer is an error.
func (b *browser) ask(method string, params map[string]any) browserAnswer {
	b.t.Helper()
	b.mu.Lock()
	b.next++
	m := map[string]any{"id": b.next, "method": method, "params": params}
	if b.session != "" {
		m["sessionId"] = b.session
	}
	c := make(chan browserAnswer, 1)
	b.waiting[b.next] = c
	b.mu.Unlock()
	text, err := json.Marshal(m)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.to.Write(append(text, 0)); err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
	select {
	case a := <-c:
		return a
	case <-b.over:
		b.t.Fatalf("%s: the browser has ended", method)
	case <-time.After(browserPatience):
		b.t.Fatalf("%s: no answer in %v", method, browserPatience)
	}
	return browserAnswer{}
}

// open opens a file in a new tab, with dark or light colours, and waits until the page is ready.
func (b *browser) open(file string, dark bool) {
	b.t.Helper()
	b.session = ""
	var made struct{ TargetID string }
	b.answer(&made, "Target.createTarget", map[string]any{"url": "about:blank"})
	var attached struct{ SessionID string }
	b.answer(&attached, "Target.attachToTarget", map[string]any{"targetId": made.TargetID, "flatten": true})
	b.session = attached.SessionID
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	b.do("Runtime.enable", nil)
	b.do("Log.enable", nil)
	b.do("Page.enable", nil)
	b.do("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}})
	b.do("Page.navigate", map[string]any{"url": "file://" + file})
	b.until(`document.documentElement.getAttribute("data-ready") === "1"`)
}

func (b *browser) answer(to any, method string, params map[string]any) {
	b.t.Helper()
	if err := json.Unmarshal(b.do(method, params), to); err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
}

// js returns the value of a JavaScript expression.
func (b *browser) js(expression string) any {
	b.t.Helper()
	var a struct {
		Result           struct{ Value any }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	b.answer(&a, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true})
	if e := a.ExceptionDetails; e != nil {
		b.t.Fatalf("%s: %s %s", expression, e.Text, e.Exception.Description)
	}
	return a.Result.Value
}

// until waits until a JavaScript expression is true.
func (b *browser) until(expression string) {
	b.t.Helper()
	for deadline := time.Now().Add(browserPatience); ; time.Sleep(20 * time.Millisecond) {
		// While a page loads, the browser may have no document, or still show the document of the previous page.
		a := b.ask("Runtime.evaluate", map[string]any{"expression": "(function () { try { return !!(" + expression + "); } catch (e) { return false; } })()", "returnByValue": true})
		var r struct{ Result struct{ Value any } }
		if a.Error == nil && json.Unmarshal(a.Result, &r) == nil && r.Result.Value == true {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("not in %v: %s\nthe page: %.3000v\nerrors: %v", browserPatience, expression, b.js("document.body && document.body.innerText"), b.errors)
		}
	}
}

// text returns the text of an element.
func (b *browser) text(selector string) string {
	b.t.Helper()
	s, _ := b.js(fmt.Sprintf("(document.querySelector(%q) || {textContent: '(not there)'}).textContent", selector)).(string)
	return s
}

// place scrolls to an element and returns its position and size in the window, in CSS pixels.
func (b *browser) place(selector string) (x, y, w, h float64) {
	b.t.Helper()
	b.until(fmt.Sprintf("document.querySelector(%q)", selector))
	list, _ := b.js(fmt.Sprintf(`(function () {
		var e = document.querySelector(%q);
		e.scrollIntoView({block: "center"});
		var r = e.getBoundingClientRect();
		return [r.x, r.y, r.width, r.height];
	})()`, selector)).([]any)
	if len(list) != 4 {
		b.t.Fatalf("%s is nowhere", selector)
	}
	at := func(i int) float64 { v, _ := list[i].(float64); return v }
	return at(0), at(1), at(2), at(3)
}

func (b *browser) mouse(kind string, x, y float64, more map[string]any) {
	b.t.Helper()
	p := map[string]any{"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1}
	if kind == "mouseMoved" {
		p["button"], p["clickCount"] = "none", 0
	}
	for k, v := range more {
		p[k] = v
	}
	b.do("Input.dispatchMouseEvent", p)
}

// click clicks the middle of an element.
func (b *browser) click(selector string) {
	b.t.Helper()
	x, y, w, h := b.place(selector)
	b.mouse("mousePressed", x+w/2, y+h/2, nil)
	b.mouse("mouseReleased", x+w/2, y+h/2, nil)
}

// drag drags the mouse over an element, horizontally. from and to are the begin and the end as parts of the element's
// width, between 0 and 1.
func (b *browser) drag(selector string, from, to float64) {
	b.t.Helper()
	x, y, w, _ := b.place(selector)
	b.mouse("mousePressed", x+from*w, y+30, nil)
	for i := 1; i <= 4; i++ {
		b.mouse("mouseMoved", x+(from+(to-from)*float64(i)/4)*w, y+30, map[string]any{"button": "left", "buttons": 1})
	}
	b.mouse("mouseReleased", x+to*w, y+30, nil)
}

// key presses a key.
func (b *browser) key(key, text string) {
	b.t.Helper()
	p := map[string]any{"type": "keyDown", "key": key}
	if text != "" {
		p["text"] = text
	}
	b.do("Input.dispatchKeyEvent", p)
	b.do("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key})
}

// typed enters text into the element that has the focus.
func (b *browser) typed(text string) {
	b.t.Helper()
	b.do("Input.insertText", map[string]any{"text": text})
}

// clean fails the test if a page has logged or thrown an error.
func (b *browser) clean() {
	b.t.Helper()
	b.js("0") // the browser sends messages in order, so errors until now arrive before this answer
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.errors) > 0 {
		b.t.Errorf("the page says:\n%s", strings.Join(b.errors, "\n"))
	}
}
