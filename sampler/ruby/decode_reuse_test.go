package ruby

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// reuseProgram makes a method, waits in it, and removes it, step by step. Each step allocates the same objects. So the
// code, entry, names and lines of a method get the addresses that an earlier method had, with equal pointers. Only the
// texts differ. Each method of the kind "class" has a class of its own. All methods of the kind "lines" have the same
// name and differ only in the line.
const reuseProgram = `
$stdout.sync = true
def hold(n); $stdout.puts("at #{n}"); $todo = $stdin.gets; end
class Churn; end
puts "ready"
$todo = $stdin.gets
main = Churn.new
(1000..).each do |n|
  kind, mode = $todo.split
  case kind
  when "method"
    Churn.class_eval("def churn_#{n}(number)\n  hold(number)\nend", "churn_#{n}.rb", 1)
    main.__send__("churn_#{n}", n)
    Churn.send(:remove_method, "churn_#{n}")
  when "lines"
    Churn.class_eval("def churn(number)\n" + "\n" * (n % 50) + "  hold(number)\nend", "churn.rb", 1)
    main.churn(n)
    Churn.send(:remove_method, "churn")
  when "class"
    Object.const_set("C#{n}", Class.new)
    Object.class_eval("class C#{n}\ndef churn(number)\n  hold(number)\nend\nend", "churn.rb", 1)
    Object.const_get("C#{n}").new.churn(n)
    Object.send(:remove_const, "C#{n}")
  end
  GC.start(full_mark: mode != "minor")
  GC.compact if mode == "compact" && GC.respond_to?(:compact)
end
`

// reuseSteps is how many methods of each kind the program makes. DDTOP_CHURN multiplies it.
const reuseSteps = 60

// TestNoStaleNames: between two ticks, code is freed and similar code gets its address. ddtop must show the name of the
// new code, and not the name of the old code.
func TestNoStaleNames(t *testing.T) {
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		// Each kind begins in a new process with a fresh heap. Otherwise the earlier allocations would decide where
		// Ruby puts an object.
		for _, work := range [][]string{
			{"method major", "method minor", "method compact"},
			{"lines minor", "lines major", "lines compact"},
			{"class minor", "class compact"},
			{"class major"},
		} {
			p := r.Start(t, reuseProgram, rubytest.Options{})
			p.Expect(t, "ready")
			rd, n := openReader(t, p.PID), 1000
			for _, todo := range work {
				kind, mode, _ := strings.Cut(todo, " ")
				noStaleNames(t, p, rd, kind, mode, n)
				n += reuseSteps * churnTimes(t)
			}
		}
	})
}

func noStaleNames(t *testing.T, p *rubytest.Process, rd *Reader, kind, mode string, first int) {
	t.Helper()
	var s sampler.Sample
	places := map[uint64]bool{} // addresses of the code
	reused, stale := 0, 0
	steps := reuseSteps * churnTimes(t)
	for n := first; n < first+steps; n++ {
		p.Send(t, kind+" "+mode)
		p.Expect(t, fmt.Sprintf("at %d", n))
		name, path, line := "Churn#churn", "churn.rb", int32(2)
		switch kind {
		case "method":
			name, path = fmt.Sprintf("Churn#churn_%d", n), fmt.Sprintf("churn_%d.rb", n)
		case "lines":
			line += int32(n % 50)
		case "class":
			name, line = fmt.Sprintf("C%d#churn", n), 3
		}
		if err := rd.Read(sampler.StackTick, &s); err != nil {
			t.Fatal(err)
		}
		if len(s.Threads) != 1 {
			t.Fatalf("%d threads, not 1", len(s.Threads))
		}
		var got sampler.Frame
		for _, id := range rd.dict.Frames(s.Threads[0].Stack, nil) {
			if f := rd.dict.Frame(id); strings.HasPrefix(f.Name, "churn") {
				got = f
			}
		}
		if got.Label != name || got.Path != path || got.Line != line {
			if stale++; stale < 4 {
				t.Errorf("%s %s, step %d: %s at %s:%d (quality %b), not %s at %s:%d: %v", kind, mode, n, got.Label, got.Path, got.Line, s.Threads[0].Quality,
					name, path, line, rd.stacks.lastDecodeError)
			}
		}
		kept := rd.list.order[0].stack.kept
		for off := 0; off+rd.o.Code.FrameSize <= len(kept); off += rd.o.Code.FrameSize {
			code := le64(kept[off+frameISeq:])
			if base, _, ok := rd.dec.Known(attach.Address(code)); ok && strings.HasPrefix(base, "churn") {
				if places[code] {
					reused++
				}
				places[code] = true
			}
		}
	}
	t.Logf("Ruby %s, %s %s: %d methods in %d places, %d in one that another had; %d wrong", rd.vm.Version, kind, mode, steps, len(places), reused, stale)
}
