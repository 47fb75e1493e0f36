package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/report"
)

const tracedProgram = `require "objspace"
class Order; def initialize(i); @i = i; end; end
keep = Array.new(100) { |i| Order.new(i) }
ObjectSpace.trace_object_allocations_start
eval("keep += Array.new(2345) { |i| Order.new(i) }", binding, "/srv/shop/cart.rb", 12)
eval("keep += Array.new(45) { |i| Order.new(i) }", binding, "/srv/shop/cart.rb", 30)
puts "ready"; $stdout.flush; $stdin.gets`

// TestHeapPlaces: `ddtop heap` shows where in the code objects were allocated, as text, as JSON and for pprof. With
// --redact, paths have no folders. With --pause, heap reads all places from a copy of one instant.
func TestHeapPlaces(t *testing.T) {
	p := rubytest.One(t).Start(t, tracedProgram, rubytest.Options{})
	p.Expect(t, "ready")
	pid := strconv.Itoa(p.PID)
	text := run(t, "heap", pid, "--overhead", "off")
	text.want(t, 0)
	row := ""
	for line := range strings.Lines(text.out) {
		if strings.Contains(line, "/srv/shop/cart.rb:12 (Class#new)") {
			row = line
		}
	}
	if f := strings.Fields(row); len(f) < 2 || f[0] != "Order" || f[1] != "2,345" || !strings.Contains(text.out, "The place of allocation is known of ") {
		t.Errorf("%q in\n%s", row, text.out)
	}
	const cart = "/srv/shop/cart.rb"
	for path, args := range map[string][]string{cart: {}, "cart.rb": {"--redact"}, cart + " ": {"--pause"}} {
		r := pausing(t, append([]string{"heap", pid, "--overhead", "off", "--json"}, args...)...)
		if r.code != 0 {
			t.Fatal(r)
		}
		var h report.Heap
		if err := json.Unmarshal([]byte(r.out), &h); err != nil {
			t.Fatal(err)
		}
		if h.Allocated == nil {
			t.Errorf("%v: no places", args)
			continue
		}
		lines := make(map[int]uint64)
		for _, k := range h.Allocated.Places {
			if k.Class == "Order" && k.Path == strings.TrimSpace(path) && k.Method != nil && *k.Method == "Class#new" &&
				k.Bytes >= 40*k.Objects {
				lines[k.Line] += k.Objects
			}
		}
		if lines[12] != 2345 || lines[30] != 45 || len(lines) != 2 {
			t.Errorf("%v: %v of %+v", args, lines, h.Allocated)
		}
	}
	pb := filepath.Join(t.TempDir(), "x.pb.gz")
	run(t, "heap", pid, "-o", pb, "--overhead", "off").want(t, 0)
	f, err := os.Open(pb)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	prof, err := profile.Parse(f)
	if err != nil {
		t.Fatal(err)
	}
	objects := make(map[int64]int64) // by line of the innermost function; 0 for a sample with only the class
	for _, s := range prof.Sample {
		if s.Label["allocation class"][0] != "Order" {
			continue
		}
		inner, outer := s.Location[0].Line[0], s.Location[len(s.Location)-1].Line[0]
		if outer.Function.Name != "Order" || len(s.Location) == 2 && (inner.Function.Name != "Class#new" || inner.Function.Filename != "/srv/shop/cart.rb") {
			t.Errorf("%+v", s)
		}
		objects[inner.Line] += s.Value[0]
	}
	if objects[0] != 100 || objects[12] != 2345 || objects[30] != 45 {
		t.Error(objects)
	}
}
