package ruby

import (
	"encoding/binary"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/memtest"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// tickProgram is a program whose threads wait in different ways. Each way of waiting makes a tick read different data
// of the thread.
const tickProgram = `require "monitor"
M, MON, Q = Mutex.new, Monitor.new, Queue.new
def named(name, &b); Thread.new { Thread.current.name = name; b.call }; end
def down(n, &b); n == 0 ? b.call : down(n - 1, &b); end
threads = [named("holder") { M.synchronize { MON.synchronize { sleep } } }]
threads[0].join(0.05)
threads << named("mutex") { M.lock } << named("monitor") { MON.enter } << named("queue") { Q.pop }
threads << named("condition") { m = Mutex.new; m.synchronize { ConditionVariable.new.wait(m) } }
threads << named("join") { threads[0].join } << named("fiber") { Fiber.new { Fiber.new { sleep }.resume }.resume }
threads << named("deep") { down(60) { sleep } } << named("read") { IO.pipe[0].read } << named("child") { Process.wait(fork { $stdin.gets }) }
sleep 0.01 until threads.all? { |t| t.status == "sleep" }
puts "ready"; $stdout.flush; $stdin.gets`

// tickTarget is a captured process: a file with the memory that ticks read while the process lived.
type tickTarget struct {
	memtest.Process
	PID int
	// Exports are the addresses of the exported variables that a Reader needs, by their names.
	Exports map[string]attach.Address
	Names   []string
}

// Exported implements the interface Exports.
func (g *tickTarget) Exported(name string) (attach.Symbol, bool) {
	a, ok := g.Exports[name]
	return attach.Symbol{Name: name, Addr: a}, ok
}

func (g *tickTarget) open(mem attach.Memory) (*Reader, error) {
	vm, _, _, err := open(&g.Process, mem)
	if err != nil {
		return nil, err
	}
	// Each call advances the clock by 1 ms. Without this, time would stand still, because the captured process does
	// nothing that takes time.
	now := int64(1e9)
	return NewReader(vm, g, g.PID, sampler.NewDictionary(), Options{Now: func() int64 { now += 1e6; return now }})
}

// ticks takes n samples, some of them with stacks.
func ticks(r *Reader, n int) (s sampler.Sample, err error) {
	for i := range n {
		depth := sampler.StackTick
		if i%3 == 2 {
			depth = sampler.LockTick
		}
		if e := r.Read(depth, &s); e != nil {
			err = e
		}
	}
	return s, err
}

func captureTick(t *testing.T, r rubytest.Ruby) {
	p := r.Start(t, tickProgram, rubytest.Options{})
	p.Expect(t, "ready")
	live := openTarget(t, p.PID)
	g := &tickTarget{Process: processOf(live), PID: p.PID, Exports: map[string]attach.Address{}}
	for _, name := range []string{"rb_mProcess", "rb_cRactor", "ruby_current_execution_context_ptr"} {
		if sym, ok := live.mod.Exported(name); ok {
			g.Exports[name] = sym.Addr
		}
	}
	capture := memtest.NewCapture(live.proc)
	rd, err := g.open(capture)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ticks(rd, 9)
	if err != nil {
		t.Fatal(err)
	}
	for _, th := range s.Threads {
		info, _ := rd.dict.Thread(th.ID)
		g.Names = append(g.Names, info.Name)
	}
	memtest.Save(t, "testdata/tick", g.Version, g, capture)
}

func loadTicks(t testing.TB) []*tickTarget { return memtest.Load[tickTarget](t, "testdata/tick") }

// TestTickOfCapturedMemory: ddtop finds the same threads and states in captured processes as in the live processes.
// With -update, the test captures the processes again.
func TestTickOfCapturedMemory(t *testing.T) {
	if *update {
		rubytest.Each(t, captureTick)
	}
	targets := loadTicks(t)
	if len(targets) < 4 {
		t.Errorf("%d captured processes only", len(targets))
	}
	kinds := map[string]sampler.BlockKind{"mutex": sampler.BlockMutex, "monitor": sampler.BlockMonitor, "queue": sampler.BlockQueue,
		"condition": sampler.BlockConditionVariable, "join": sampler.BlockJoin, "deep": sampler.BlockSleepForever}
	for _, g := range targets {
		t.Run(g.Version, func(t *testing.T) {
			r, err := g.open(g.Pages)
			if err != nil {
				t.Fatal(err)
			}
			s, err := ticks(r, 9)
			if err != nil {
				t.Fatal(err)
			}
			if len(s.Threads) != len(g.Names) {
				t.Fatalf("%d threads of %d", len(s.Threads), len(g.Names))
			}
			for i, th := range s.Threads {
				info, _ := r.dict.Thread(th.ID)
				if info.Name != g.Names[i] {
					t.Errorf("thread %d is %q, was %q", i, info.Name, g.Names[i])
				}
				if want, ok := kinds[info.Name]; ok && th.Blocked.Kind != want && !(want == sampler.BlockSleepForever && th.Blocked.Kind == sampler.BlockSleep) {
					t.Errorf("%s is blocked by kind %d, not %d", info.Name, th.Blocked.Kind, want)
				}
				if info.Name == "fiber" && len(th.Resumers) != 2 {
					t.Errorf("%d resuming fibers, not 2", len(th.Resumers))
				}
			}
		})
	}
}

// FuzzTick replaces some words of a captured process by others. Ticks must end after a limited number of reads, with a
// sample or an error. The words can make endless lists, false threads, or stacks of impossible sizes. To find more
// inputs, run: `go test -run XXX -fuzz FuzzTick -fuzzminimizetime 1s`. By default, the engine takes up to a minute to
// shrink each new input, and shows "0 execs/sec" meanwhile.
func FuzzTick(f *testing.F) {
	targets := loadTicks(f)
	places := make([][]attach.Address, len(targets))
	for i, g := range targets {
		w := memtest.NewPlaces(g.Pages)
		r, err := g.open(w)
		if err != nil {
			f.Fatal(err)
		}
		if _, err := ticks(r, 9); err != nil {
			f.Fatal(err)
		}
		places[i] = w.At
		memtest.AddEdits(f, i, 40, 61)
	}
	f.Fuzz(func(t *testing.T, which uint8, edits []byte) {
		i := int(which) % len(targets)
		mem := &memtest.Edited{Of: targets[i].Pages, Words: make(map[attach.Address]uint64)}
		r, err := targets[i].open(mem)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = ticks(r, 3) // the first ticks read unchanged memory, so that the memory becomes corrupt only after them
		for ; len(edits) >= 6; edits = edits[6:] {
			at := places[i][int(binary.LittleEndian.Uint16(edits))%len(places[i])]
			n := binary.LittleEndian.Uint32(edits[2:])
			value := uint64(n)
			switch n & 1 {
			case 0: // put in a pointer to an address that ticks read
				value = uint64(places[i][int(n>>1)%len(places[i])])
			case 1: // put in another word from the captured memory
				var b [8]byte
				if targets[i].Pages.Read(places[i][int(n>>1)%len(places[i])], b[:]) == nil {
					value = le64(b[:])
				}
			}
			mem.Words[at] = value
		}
		before := r.reads.Calls
		s, _ := ticks(r, 4)
		if len(s.Threads) > maxThreads {
			t.Fatalf("%d threads", len(s.Threads))
		}
		if calls := r.reads.Calls - before; calls > 1<<20 {
			t.Fatalf("%d calls in four ticks", calls)
		}
		// Also open a new Reader, which reads the changed memory from its first tick on.
		if r, err = targets[i].open(mem); err == nil {
			_, _ = ticks(r, 2)
		}
	})
}
