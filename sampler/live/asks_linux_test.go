package live

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/native/clock"
)

// asksProgram calls each function of asks.c from a different Ruby method. After each call it prints how many bytes of
// memory the function has asked the kernel for.
const asksProgram = `
require "fiddle"
$stdin.gets
LIBRARY = Fiddle.dlopen(File.expand_path("asks.so"))
def function(name) Fiddle::Function.new(LIBRARY[name], [Fiddle::TYPE_LONG], Fiddle::TYPE_LONG); end
Fiddle::Function.new(LIBRARY["ask_prepare"], [], Fiddle::TYPE_VOID).call
%w[keep free heap grow arena nothing fast].each do |name|
  f = function("ask_" + name)
  eval "F_#{name} = f; def #{name}(times) F_#{name}.call(times); end"
end
public
puts "ready"; $stdout.flush
while line = $stdin.gets
  name, times = line.split
  puts send(name, times.to_i); $stdout.flush
end`

// startAsking starts asksProgram with a compiled asks.c.
func startAsking(t *testing.T, r rubytest.Ruby) *rubytest.Process {
	t.Helper()
	gcc := rubytest.Program(t, "gcc", "gcc libc6-dev")
	p := r.Start(t, asksProgram, rubytest.Options{})
	out := filepath.Join(t.TempDir(), "asks.so")
	if text, err := exec.Command(gcc, "-O1", "-fno-optimize-sibling-calls", "-fno-inline", "-w", "-shared", "-fPIC",
		"-nostdlib", "-o", out, "testdata/asks.c").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	so, err := os.ReadFile(out)
	if err == nil {
		err = os.WriteFile(filepath.Join(p.HostDir, "asks.so"), so, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	p.Send(t, "go on")
	p.Expect(t, "ready")
	return p
}

// asksOf adds up the memory of stacks that have the same function of asks.c and the same Ruby method.
func asksOf(d *sampler.Dictionary, a *sampler.MemoryAsks) map[string]sampler.MemoryAsk {
	out := make(map[string]sampler.MemoryAsk)
	for _, x := range a.Stacks {
		function, method := "", ""
		for _, id := range d.Frames(x.Stack, nil) {
			switch label := d.Frame(id).Label; {
			case strings.HasPrefix(label, "ask_"), label == "arena":
				function = label
			case strings.HasPrefix(label, "Object#") && method == "":
				method = strings.TrimPrefix(label, "Object#")
			}
		}
		sum := out[function+" "+method]
		sum.Calls, sum.Bytes, sum.Held = sum.Calls+x.Calls, sum.Bytes+x.Bytes, sum.Held+x.Held
		out[function+" "+method] = sum
	}
	return out
}

// TestAsks: ddtop reports to the byte how much memory a program asks the kernel for, by C function and Ruby method. It
// also reports how much of this memory is still mapped. It does not count mappings that only reserve addresses, nor the
// stacks of threads.
func TestAsks(t *testing.T) {
	if err := MayRun(); err != nil {
		t.Skip(err)
	}
	each := rubytest.EachVersion
	if rubytest.Short(t) {
		each = rubytest.OldestAndNewest
	}
	each(t, func(t *testing.T, r rubytest.Ruby) {
		p := startAsking(t, r)
		s, x := followAsks(t, p)
		ask := func(name string, times int) (bytes uint64) {
			p.Send(t, fmt.Sprint(name, " ", times))
			if _, err := fmt.Sscan(p.Line(t), &bytes); err != nil {
				t.Fatal(err)
			}
			return bytes
		}
		want := make(map[string]sampler.MemoryAsk)
		// expect calls a function of asks.c that asks for a block of memory of the size block. If block is zero, malloc
		// decides how much memory it asks the kernel for.
		expect := func(name string, block uint64, held bool) {
			m := sampler.MemoryAsk{Bytes: ask(name, 10)}
			if block > 0 {
				m.Calls = (m.Bytes + block - 1) / block
			}
			if held {
				m.Held = m.Bytes
			}
			want["ask_"+name+" "+name] = m
		}
		const block, page = 1 << 20, 4096
		expect("keep", block+page, true)
		expect("free", block+page, false)
		expect("grow", block, true) // at first, this function asks for one page more
		expect("heap", 0, true)
		least := ask("arena", 20)
		ask("nothing", 10)
		if err := x.Stop(); err != nil {
			t.Fatal(err)
		}
		a := x.Asked()
		got := asksOf(s.Dictionary(), a)
		for key, w := range want {
			g := got[key]
			if w.Calls == 0 {
				w.Calls = g.Calls
			}
			if g != w || g.Calls == 0 {
				t.Errorf("%s: %+v, want %+v", key, g, w)
			}
		}
		const most = 300_000 // the largest number of bytes that malloc requests from the kernel at once
		if g := got["arena "]; g.Bytes < least || g.Bytes > least+most || g.Held != g.Bytes {
			t.Errorf("an arena that has %d bytes: %+v", least, g)
		}
		var sum sampler.MemoryAsk
		for _, m := range a.Stacks {
			sum.Calls, sum.Bytes = sum.Calls+m.Calls, sum.Bytes+m.Bytes
		}
		if sum.Calls != a.Calls || a.Copied != a.Calls || sum.Bytes != a.Bytes || !a.Sure {
			t.Errorf("stacks have %+v of %+v", sum, *a)
		}
		for key := range got {
			if name, _, _ := strings.Cut(key, " "); name == "ask_nothing" || name == "ask_arena" {
				t.Errorf("%s: %+v", key, got[key])
			}
		}
	})
}

func followAsks(t *testing.T, p *rubytest.Process) (*Source, Asks) {
	t.Helper()
	s, err := Open(t.Context(), p.PID, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	x, err := FollowAsks(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return s, x
}

// TestTooManyAsks: if a program asks for memory very often, ddtop copies only few of its stacks, but still counts all
// calls. It must report that it does not know how much of the memory is still mapped.
func TestTooManyAsks(t *testing.T) {
	if err := MayRun(); err != nil {
		t.Skip(err)
	}
	p := startAsking(t, rubytest.One(t))
	s, x := followAsks(t, p)
	const calls = 200_000
	began := time.Now()
	p.Send(t, fmt.Sprint("fast ", calls))
	p.Line(t)
	took := time.Since(began)
	if err := x.Stop(); err != nil {
		t.Fatal(err)
	}
	a := x.Asked()
	most := clock.MaxAsks * uint64(took/time.Second+2)
	if g := asksOf(s.Dictionary(), a)["ask_fast fast"]; a.Calls < calls || a.Calls > calls+1000 || a.Bytes < calls*4096 ||
		g.Calls == 0 || a.Copied > most || g.Calls > a.Copied || a.Sure {
		t.Errorf("%+v and %+v in %v", *a, g, took)
	}
}
