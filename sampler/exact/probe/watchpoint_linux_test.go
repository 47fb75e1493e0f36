package probe

import (
	"cmp"
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/exact"
)

// watchpoints are hardware watchpoints on two words of the scheduler, in all threads of a process. A write to the word
// with the owner of the GVL makes a record of Kind Unlocked. A write to the word with the end of the queue makes a
// record of Kind Slept.
type watchpoints struct {
	target Target
	fds    []int
	reader *ringbuf.Reader
	hits   int // hits of the removed watchpoints, as the kernel counted them
}

// watchOwner puts watchpoints on the scheduler's words in all present threads of w.
func watchOwner(t *testing.T, w *watched) *watchpoints {
	t.Helper()
	kernel, err := placesOfKernel()
	if err != nil {
		t.Fatal(err)
	}
	p := &watchpoints{target: w.target}
	// make the program read the queue, also in Ruby up to 3.2
	p.target.Before33, p.target.RunningNode = false, w.target.ReadyNode
	counts, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: counters, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { counts.Close() })
	ring, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: ringBytes})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ring.Close() })
	if p.reader, err = ringbuf.NewReader(ring); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.reader.Close() })
	t.Cleanup(p.off)
	tids, err := w.proc.TIDs(nil)
	if err != nil {
		t.Fatal(err)
	}
	for kind, at := range map[exact.Kind]uint64{exact.Unlocked: w.target.Owner, exact.Slept: w.target.QueueTail} {
		b := builder{target: &p.target, kernel: kernel, kind: kind, counters: counts.FD(), ring: ring.FD()}
		program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.PerfEvent, Instructions: b.program(), License: "Dual MIT/GPL"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { program.Close() })
		const whenWritten, bytes = 2, 8 // HW_BREAKPOINT_W, HW_BREAKPOINT_LEN_8
		for _, tid := range tids {
			attr := unix.PerfEventAttr{
				Type: unix.PERF_TYPE_BREAKPOINT, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Sample: 1,
				Bits: unix.PerfBitDisabled | unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv, Bp_type: whenWritten, Ext1: at, Ext2: bytes,
			}
			fd, err := unix.PerfEventOpen(&attr, int(tid), -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
			if err != nil {
				rubytest.Skip(t, "this machine has no hardware watchpoints for it (perf_event_open: %v)", err)
			}
			p.fds = append(p.fds, fd)
			if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_BPF, program.FD()); err != nil {
				t.Fatal(err)
			}
			if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	return p
}

// off removes the watchpoints.
func (p *watchpoints) off() {
	for _, fd := range p.fds {
		var count [8]byte
		if unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_DISABLE, 0) == nil {
			if n, err := unix.Read(fd, count[:]); err == nil && n == len(count) {
				p.hits += int(binary.NativeEndian.Uint64(count[:]))
			}
		}
		unix.Close(fd)
	}
	p.fds = nil
}

// drain returns the slice to with the records of the watchpoints appended.
func (p *watchpoints) drain(t *testing.T, to []exact.Record) []exact.Record {
	t.Helper()
	if err := p.reader.Flush(); err != nil {
		t.Fatal(err)
	}
	for {
		r, err := p.reader.Read()
		if errors.Is(err, ringbuf.ErrFlushed) || errors.Is(err, os.ErrDeadlineExceeded) {
			return to
		}
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.target.decode(r.RawSample)
		if err != nil {
			t.Fatal(err)
		}
		to = append(to, got)
	}
}

// turns collects the holds that a Machine reports: which thread got the GVL, when it got the GVL, and since when it had
// waited.
type turns struct {
	all  []toldTurn
	open map[int32]*toldTurn
}

// A toldTurn is one hold of a thread. waitNS is when the thread began to wait for the GVL. It is zero if the thread did
// not wait. toNS is zero while the hold goes on.
type toldTurn struct {
	tid                  int32
	waitNS, fromNS, toNS int64
}

func (k *turns) changed(c *exact.Change) {
	x := k.open[c.TID]
	switch c.State {
	case sampler.GVLQueued, sampler.GVLChosen:
		if x != nil && x.fromNS == 0 {
			return
		}
		k.end(x, c)
		k.open[c.TID] = &toldTurn{tid: c.TID, waitNS: c.AtNS}
	case sampler.GVLHeld:
		switch {
		case x == nil:
			k.open[c.TID] = &toldTurn{tid: c.TID, fromNS: c.AtNS}
		case x.fromNS == 0:
			x.fromNS = c.AtNS
		}
	default:
		k.end(x, c)
	}
}

// end records that the hold x of a thread has ended. The change c of the thread's state ended it.
func (k *turns) end(x *toldTurn, c *exact.Change) {
	if x != nil && x.fromNS != 0 {
		x.toNS = c.AtNS
		k.all = append(k.all, *x)
	}
	delete(k.open, c.TID)
}

// watchedTurn is a hold as the watchpoints show it: the time between two writes of the owner. queuedNS is when the
// thread entered the queue. It is zero if the thread did not queue.
type watchedTurn struct {
	tid                    int32
	fromNS, toNS, queuedNS int64
}

// turnsOf finds the holds in records of watchpoints.
func turnsOf(t *testing.T, records []exact.Record) []watchedTurn {
	t.Helper()
	slices.SortFunc(records, func(a, b exact.Record) int { return cmp.Compare(a.NS, b.NS) })
	var turns []watchedTurn
	queued := make(map[int32]int64)
	open := false
	for _, r := range records {
		switch {
		case r.Kind == exact.Slept:
			if r.Thread != 0 && r.Last == r.Thread {
				queued[r.TID] = r.NS
			}
		case r.Owner == 0:
			if open && turns[len(turns)-1].tid != r.TID {
				t.Fatalf("thread %d gives away what %d has", r.TID, turns[len(turns)-1].tid)
			}
			if open {
				turns[len(turns)-1].toNS = r.NS
			}
			open = false
		default:
			if open {
				t.Fatalf("thread %d takes what %d has", r.TID, turns[len(turns)-1].tid)
			}
			turns = append(turns, watchedTurn{tid: r.TID, fromNS: r.NS, queuedNS: queued[r.TID]})
			delete(queued, r.TID)
			open = true
		}
	}
	if open {
		turns = turns[:len(turns)-1]
	}
	return turns
}

// TestTurnsByWatchpoints: up to 3.2, Ruby itself reports no holds with which the records could be compared. So hardware
// watchpoints on the owner and on the queue show the holds. The records of the probes must have the same threads in the
// same order. A hold in the records must begin after the write that makes its thread the owner, and before the write
// that follows. It must end after the write that follows, and before the next hold. If a thread has queued, its wait is
// just before its hold. This order is the same for any delay of a thread, so the result does not depend on chance.
//
// But watchpoints can miss writes. The kernel runs no program at a watchpoint while the processor runs another program,
// or while a process reads a map. (See bpf_overflow_handler and bpf_disable_instrumentation, Linux 6.18.) Other tests
// read maps at the same time. The kernel still counts a hit without a program, so the test can see that writes are
// missing.
func TestTurnsByWatchpoints(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.Long(t)
	if runtime.GOARCH != "amd64" {
		rubytest.Skip(t, "at a watchpoint of x86_64 alone a program sees what was written: on arm64 it runs before")
	}
	needBPF(t)
	for name, program := range map[string]string{
		"time slices": "3.times { Thread.new { n = 0; loop { n += 1 } } }\n2.times { Thread.new { loop { sleep 0.001 } } }",
		"short waits": "q = Queue.new\nThread.new { loop { q.pop } }\n2.times { Thread.new { loop { q << 1; sleep 0.0005 } } }\n" +
			"r, w = IO.pipe\n2.times { Thread.new { loop { w.syswrite('x'); r.sysread(1); sleep 0.0005 } } }\n" +
			"2.times { Thread.new { n = 0; loop { 20_000.times { n += 1 }; sleep 0.0002 } } }",
	} {
		t.Run(name, func(t *testing.T) {
			rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
				if r.AtLeast(3, 3) {
					rubytest.Skip(t, "Ruby tells of its turns from 3.3 on (TestExactTurns)")
				}
				w := watch(t, r, "$stdout.sync = true\n"+program+"\nsleep 0.1\nputs 'ready'\n$stdin.gets", false)
				const parts = 20
				for range parts {
					truth, records, missed := recordTurns(t, &w)
					if missed == 0 {
						compareTurns(t, turnsOf(t, truth), records)
						return
					}
					t.Logf("the watchpoints made %d records, and none of %d hits: another part", len(truth), missed)
				}
				rubytest.TooSeldomNow(t, "in none of %d parts is there a record of each hit of a watchpoint", parts)
			})
		})
	}
}

// recordTurns returns the records of watchpoints and probes in a few seconds, and the number of watchpoint hits without
// a record.
func recordTurns(t *testing.T, w *watched) (truth, records []exact.Record, missed int) {
	t.Helper()
	points := watchOwner(t, w)
	p, err := Attach(w.proc, w.code, w.target)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	// A hold makes at least four records, so enough records also have enough holds. On a busy machine, it can take
	// longer than the constant longest until there are as many records as the constant least.
	const enough, least, longest = 20_000, 500, 4 * time.Second
	for began := time.Now(); len(records) < enough && (time.Since(began) < longest || len(truth) < least && time.Since(began) < w.Ruby.Timeout()); time.Sleep(5 * time.Millisecond) {
		truth = points.drain(t, truth)
		if err := p.Drain(func(r *exact.Record) { records = append(records, *r) }); err != nil {
			t.Fatal(err)
		}
	}
	// The watchpoints are removed from one thread after the other. Meanwhile a thread without a watchpoint can release
	// the GVL unseen. So records from after the first removal are counted, but not compared.
	untilNS := monotonicNS(t)
	points.off() // remove the watchpoints before the probes, whose later records are not compared
	truth = points.drain(t, truth)
	recorded := len(truth)
	truth = slices.DeleteFunc(truth, func(r exact.Record) bool { return r.NS >= untilNS })
	if err := p.Drain(func(r *exact.Record) { records = append(records, *r) }); err != nil {
		t.Fatal(err)
	}
	return truth, records, points.hits - recorded
}

func monotonicNS(t *testing.T) int64 {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		t.Fatal(err)
	}
	return ts.Nano()
}

func compareTurns(t *testing.T, want []watchedTurn, records []exact.Record) {
	t.Helper()
	slices.SortStableFunc(records, func(a, b exact.Record) int { return cmp.Compare(a.NS, b.NS) })
	k := turns{open: make(map[int32]*toldTurn)}
	m := exact.NewMachine(k.changed)
	for i := range records {
		m.Feed(&records[i])
	}
	slices.SortFunc(k.all, func(a, b toldTurn) int { return cmp.Compare(a.fromNS, b.fromNS) })
	// Do not compare the first holds and the last ones. The first holds may have begun before all probes were set. The
	// last holds have not ended.
	if len(want) < 20 || len(k.all) < 20 {
		t.Fatalf("%d turns by watchpoints, %d by records", len(want), len(k.all))
	}
	begin := slices.IndexFunc(want, func(w watchedTurn) bool { return w.fromNS > k.all[0].fromNS })
	if begin < 0 {
		t.Fatal("no turn of the watchpoints is after the first record")
	}
	want = want[begin:]
	got := k.all[slices.IndexFunc(k.all, func(g toldTurn) bool { return g.fromNS >= want[0].fromNS }):]
	compared, queued := 0, 0
	before := make(map[int32]int64) // when each thread's last hold ended
	for i, w := range want[:len(want)-1] {
		if i >= len(got) {
			t.Fatalf("turn %d of %d has no record", i, len(want))
		}
		g := got[i]
		if g.tid != w.tid || g.fromNS < w.fromNS || g.fromNS > w.toNS || g.toNS < w.toNS || g.toNS > want[i+1].fromNS {
			t.Fatalf("turn %d: the records have %+v, the watchpoints %+v, then %+v", i, g, w, want[i+1])
		}
		compared++
		if w.queuedNS > k.all[0].fromNS && before[w.tid] != 0 {
			queued++
			if g.waitNS == 0 || g.waitNS < before[w.tid] || g.waitNS > w.fromNS {
				t.Fatalf("turn %d: %+v has queued, and the records have %+v (its turn before ended at %d)", i, w, g, before[w.tid])
			}
		}
		before[w.tid] = w.toNS
	}
	if c := m.Checks(); c.Unclosed != 0 {
		t.Errorf("%+v", c)
	}
	rubytest.Report(t, "%d turns compared, %d of them after queueing", compared, queued)
}
