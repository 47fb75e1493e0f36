package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/exporttest"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/report"
)

const heapProgram = `
class Order; def initialize(i); @secret = "secret-value-#{i}"; end; end
keep = Array.new(4321) { |i| Order.new(i) }
puts "ready"; $stdout.flush; $stdin.gets`

func kindOf(h *report.Heap, class string) (k report.HeapKind) {
	for _, k := range h.Classes {
		if k.Name == class {
			return k
		}
	}
	return k
}

// TestHeap checks that `ddtop heap` counts the objects of one process and of two, as text and as JSON. The output never
// has the content of an object.
func TestHeap(t *testing.T) {
	ruby := rubytest.One(t)
	var pids []string
	for range 2 {
		p := ruby.Start(t, heapProgram, rubytest.Options{})
		p.Expect(t, "ready")
		pids = append(pids, strconv.Itoa(p.PID))
	}
	js := run(t, "heap", pids[0], "--json")
	js.want(t, 0)
	var h report.Heap
	if err := json.Unmarshal([]byte(js.out), &h); err != nil {
		t.Fatal(err)
	}
	if k := kindOf(&h, "Order"); k.Objects != 4321 || k.SlotBytes == 0 || k.OtherBytes == nil || k.Unsized != 0 {
		t.Errorf("%+v", k)
	}
	if h.Growth != nil || h.Pages == 0 || h.CPUNS == nil || len(h.Slots) == 0 || len(h.Types) < 10 {
		t.Errorf("%+v", h)
	}
	text := run(t, "heap", "-p", pids[0], "--overhead", "off")
	text.want(t, 0)
	if !strings.Contains(text.out, "Order") || !strings.Contains(text.out, "4,321") || !strings.Contains(text.out, "T_STRING") {
		t.Error(text.out)
	}
	both := run(t, "heap", strings.Join(pids, ","), "--json")
	both.want(t, 0)
	var several struct{ Processes []report.Heap }
	if err := json.Unmarshal([]byte(both.out), &several); err != nil {
		t.Fatal(err)
	}
	if len(several.Processes) != 2 || kindOf(&several.Processes[1], "Order").Objects != 4321 {
		t.Errorf("%d processes", len(several.Processes))
	}
	for _, out := range []string{js.out, text.out, both.out} {
		if strings.Contains(out, "secret") {
			t.Error("the content of a String is in the output")
		}
	}
}

// TestRecordHeap: `ddtop record` with --heap adds a table of the process's objects to the HTML page. For two processes
// the page has two tables. ddtop refuses --heap together with other formats or with --when.
func TestRecordHeap(t *testing.T) {
	ruby := rubytest.One(t)
	var pids []string
	for range 2 {
		p := ruby.Start(t, heapProgram, rubytest.Options{})
		p.Expect(t, "ready")
		pids = append(pids, strconv.Itoa(p.PID))
	}
	file := filepath.Join(t.TempDir(), "x.html")
	run(t, "record", "-p", strings.Join(pids, ","), "-d", "300ms", "--heap", "-o", file).want(t, 0)
	page, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(page), "secret") {
		t.Fatal("the content of a String is on the page", err)
	}
	list := exporttest.PageList(t, page)
	if len(list) != 2 {
		t.Fatalf("%d processes", len(list))
	}
	for _, data := range list {
		heap, _ := data["heap"].(map[string]any)
		if text := fmt.Sprint(heap["classes"]); !strings.Contains(text, "name:Order") || !strings.Contains(text, "objects:4321") {
			t.Error(text)
		}
	}
	run(t, "record", pids[0], "--heap", "-o", filepath.Join(t.TempDir(), "x.svg")).want(t, 2, "--heap")
	run(t, "record", pids[0], "--heap", "--when", "wait_p99>200ms", "-o", "x").want(t, 2, "--heap")
}

// TestHeapGrows measures a program that leaks objects of one kind and makes short-lived objects of another. `ddtop
// heap` must report only the leak as growing. One Ruby is enough, because TestHeapGrowth checks the same rules on all
// Rubies.
func TestHeapGrows(t *testing.T) {
	rubytest.Long(t)
	rubytest.OftenEnough(t)
	p := rubytest.One(t).Start(t, `
class Leaked; end
leak = []
puts "ready"; $stdout.flush
began, made = Process.clock_gettime(Process::CLOCK_MONOTONIC), 0
loop do
  10_000.times { |i| [i.to_s] }
  want = ((Process.clock_gettime(Process::CLOCK_MONOTONIC) - began) * 20).to_i
  (made += 1; leak << Leaked.new) while made < want
end`, rubytest.Options{})
	p.Expect(t, "ready")
	r := run(t, "heap", strconv.Itoa(p.PID), "-d", "30s", "--json")
	r.want(t, 0)
	var h report.Heap
	if err := json.Unmarshal([]byte(r.out), &h); err != nil {
		t.Fatal(err)
	}
	for _, k := range h.Growth.Classes {
		if k.Name == "Leaked" {
			if k.ObjectsPerSecond < 10 || k.ObjectsPerSecond > 30 {
				rubytest.TooSeldom(t, "the leak of 20 a second: %+v", k)
			}
			continue
		}
		t.Errorf("%+v does not grow", k)
	}
	if len(h.Growth.Classes) == 0 {
		rubytest.TooSeldom(t, "no class is named: %+v", h.Growth)
	}
	t.Logf("%+v", h.Growth)
}

const holdersProgram = `
module Store; CACHE = {}; end
class Session; def initialize(i); @data = "secret-value-#{i}" + "x" * 100; @user = "secret-user"*3; end; end
class Alone; end
2000.times { |i| (Store::CACHE[i] ||= []) << Session.new(i) }
BIG = "secret" * 100_000
HOSTILE = Array.new(3) { ("hostile \"\e]0;\a\u202e\xff" + "y" * 3900) }
Thread.new { sleep }.name = "secret thread"
puts "ready"; $stdout.flush; $stdin.gets`

// TestHeapHolders checks `ddtop heap` with --holders, which shows the objects that keep others alive, and with
// --biggest. It checks text and JSON. Only --values without --redact shows the content of objects.
func TestHeapHolders(t *testing.T) {
	p := rubytest.One(t).Start(t, holdersProgram, rubytest.Options{})
	p.Expect(t, "ready")
	pid := strconv.Itoa(p.PID)
	js := run(t, "heap", pid, "--holders", "Session", "--biggest", "--json", "--overhead", "off", "--redact")
	js.want(t, 0)
	var h report.HeapGraph
	if err := json.Unmarshal([]byte(js.out), &h); err != nil {
		t.Fatal(err)
	}
	x := h.Holders
	if x == nil || x.Objects != 2000 || len(x.Paths) == 0 || x.Paths[0].Path != "Store::CACHE (Hash) → Array → Session" || x.Paths[0].Objects < 1999 {
		t.Fatalf("%+v", x)
	}
	// Each Session keeps two Strings alive. One of them is too long for its slot, so its text is in separate memory.
	if least := uint64(2000 * (3*40 + 100)); x.RetainedBytes < least || x.Paths[0].HolderRetainedBytes <= x.RetainedBytes {
		t.Errorf("%d bytes retained, at least %d: %+v", x.RetainedBytes, least, x.Paths[0])
	}
	b := h.Biggest
	if b == nil || len(b.Strings) == 0 || b.Strings[0].Path == nil || *b.Strings[0].Path != "BIG (String)" || b.Strings[0].Length != 600_000 {
		t.Fatalf("%+v", b)
	}
	if len(b.Copies.Groups) == 0 || b.Copies.Groups[0].Objects < 2000 || b.Copies.WastedBytes < 1999*40 {
		t.Errorf("%+v", b.Copies)
	}
	one := run(t, "heap", pid, "--holders", b.Strings[0].Address, "--overhead", "off")
	one.want(t, 0)
	if !strings.Contains(one.out, "BIG (String)") {
		t.Error(one.out)
	}
	text := run(t, "heap", "-p", pid, "--holders", "Session", "--biggest", "--overhead", "off")
	text.want(t, 0)
	if !strings.Contains(text.out, "Store::CACHE (Hash) → Array → Session") || !strings.Contains(text.out, "Largest Strings:") {
		t.Error(text.out)
	}
	// With --values, the output shows the content of Strings. The content of the test's equal Strings begins with
	// quotes and escapes.
	values := run(t, "heap", pid, "--biggest", "--values", "--overhead", "off")
	values.want(t, 0)
	if !strings.Contains(values.out, "\n    \"secretsecretsecretsecretsecretsecretsecretsecretsecretsecretsecr\"…\n") ||
		!strings.Contains(values.out, `"hostile \"\x1b]0;\a\u202e\xff`) {
		t.Error(values.out)
	}
	exporttest.CheckPrintable(t, "values", values.out)
	redacted := run(t, "heap", pid, "--biggest", "--values", "--redact", "--overhead", "off")
	redacted.want(t, 0)
	for _, out := range []string{js.out, text.out, redacted.out} {
		if strings.Contains(out, "secret-") || strings.Contains(out, "secretsecret") {
			t.Error("the content of a String is in the output")
		}
	}
	for _, c := range []struct {
		args []string
		code int
		say  string
	}{
		{[]string{"--holders", "Nowhere"}, 1, "no object is of class Nowhere"},
		{[]string{"--holders", "0x10"}, 1, "no object is at 0x10"},
		{[]string{"--holders", "Session", "--max-objects", "100"}, 1, "--max-objects"},
		{[]string{"--holders", "Session", "--max-memory", "100kB"}, 1, "--max-memory"},
		{[]string{"--biggest", "-d", "3s"}, 2, "choose"},
		{[]string{"--values"}, 2, "--values goes with --biggest"},
		{[]string{"--values", "--biggest", "--json"}, 2, "--values goes with --biggest"},
		{[]string{"--values", "-o", filepath.Join(t.TempDir(), "x.json")}, 2, "--values goes with --biggest"},
		{[]string{"--biggest", "--children"}, 2, "one process"},
	} {
		run(t, append([]string{"heap", pid, "--overhead", "off"}, c.args...)...).want(t, c.code, c.say)
	}
}
