package probe

import (
	"errors"
	"testing"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/bpf"
	"github.com/ddtop/ddtop/sampler/exact"
	"github.com/ddtop/ddtop/sampler/ruby"
)

// needBPF skips the test if the machine does not allow exact mode.
func needBPF(t *testing.T) {
	t.Helper()
	if err := Try(false); err != nil {
		rubytest.Skip(t, "%v", err)
	}
}

// watched is a Ruby process with everything that Attach needs.
type watched struct {
	*rubytest.Process
	proc   *attach.Process
	module *attach.Module
	code   Code
	target Target
	reader *ruby.Reader
	dict   *sampler.Dictionary
}

// busy is a Ruby program with four threads that hand the GVL to each other all the time.
const busy = `$stdout.sync = true
4.times { Thread.new { loop { Thread.pass; sleep 0 } } }
puts "ready"
$stdin.gets`

// watch starts a Ruby program, and finds everything that Attach needs for it. If libc is true, the probes will be in
// the C library.
func watch(t *testing.T, r rubytest.Ruby, program string, libc bool) watched {
	t.Helper()
	return watchWith(t, r, program, libc, rubytest.Options{})
}

func watchWith(t *testing.T, r rubytest.Ruby, program string, libc bool, o rubytest.Options) watched {
	t.Helper()
	rubytest.NeedExact(t, r)
	w := watched{Process: r.Start(t, program, o)}
	w.Expect(t, "ready")
	var err error
	if w.proc, err = attach.Open(w.PID); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.proc.Close() })
	if w.module, err = attach.FindRuby(w.proc); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.module.Close() })
	version, _, err := w.module.RubyVersion(w.proc)
	if err != nil {
		t.Fatal(err)
	}
	found, err := ruby.Find(t.Context(), w.proc, w.module, version, ruby.FindOptions{PID: w.PID})
	if err != nil {
		t.Fatal(err)
	}
	w.dict = sampler.NewDictionary()
	reader, err := ruby.NewReader(found.VM, w.module, w.PID, w.dict, ruby.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var s sampler.Sample
	for deadline := time.Now().Add(r.Timeout()); ; {
		if err = reader.Read(sampler.LockTick, &s); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	at, err := reader.Scheduler()
	if err != nil {
		t.Fatal(err)
	}
	maps, err := w.proc.Maps()
	if err != nil {
		t.Fatal(err)
	}
	if w.code, err = FindCode(w.proc, w.module, maps, CodeOptions{Before33: at.Before33, LibC: libc}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.code.Close() })
	w.target = Target{PID: w.PID, Lock: uint64(at.Lock), Owner: uint64(at.Owner), QueueTail: uint64(at.QueueTail), ReadyNode: at.ReadyNode,
		RunningNode: at.RunningNode, Before33: at.Before33, ExecutionContext: at.ExecutionContext, ThreadOfEC: at.ThreadOfEC}
	w.target.ContextOfThread, w.target.Stacks = reader.Contexts()
	w.reader = reader
	return w
}

// needPerfEvents skips a test if the kernel refuses probes by perf events.
func needPerfEvents(t *testing.T) {
	t.Helper()
	if m, err := thisMachine(); err != nil || !m.Has(bpf.CapSysAdmin) {
		rubytest.Skip(t, "probes by perf events need CAP_SYS_ADMIN (%v)", err)
	}
}

// eachWay runs a test once for each way to set probes. The ways are perf events, one link for many probes, and probes
// in the C library instead of libruby. It skips ways that the kernel does not support.
func eachWay(t *testing.T, test func(t *testing.T, many, libc bool)) {
	needBPF(t)
	m, err := thisMachine()
	if err != nil {
		t.Fatal(err)
	}
	many, err := m.check()
	t.Run("perf events", func(t *testing.T) {
		needPerfEvents(t)
		test(t, false, false)
	})
	t.Run("one link", func(t *testing.T) {
		if err != nil || !many {
			rubytest.Skip(t, "this kernel has no links of many probes that know processes (%v)", err)
		}
		test(t, true, false)
	})
	t.Run("in the C library", func(t *testing.T) { test(t, many, true) })
}

// TestAttach: the probes make records of all kinds, and the records name Ruby's threads. After Close, no breakpoint is
// left in the process.
func TestAttach(t *testing.T) {
	rubytest.Each(t, func(t *testing.T, r rubytest.Ruby) {
		eachWay(t, func(t *testing.T, many, libc bool) {
			w := watch(t, r, busy, libc)
			p, err := attachBy(w.proc, w.code, w.target, settings{many: many, ringBytes: ringBytes})
			if err != nil {
				t.Fatal(err)
			}
			if rubytest.ChangedCode(t, w.PID) == 0 {
				t.Error("no breakpoint is in the process's code")
			}
			threads := make(map[int32]uint64)
			kinds := make(map[exact.Kind]int)
			last := int64(0)
			for deadline := time.Now().Add(r.Timeout()); kinds[exact.Unlocked] < 1000 || kinds[exact.Slept] < 10 || kinds[exact.Signalled] < 10 || len(threads) < 4; {
				err := p.Drain(func(r *exact.Record) {
					kinds[r.Kind]++
					if r.Thread != 0 {
						if was, ok := threads[r.TID]; ok && was != r.Thread {
							t.Errorf("native thread %d is of %#x and of %#x", r.TID, was, r.Thread)
						}
						threads[r.TID] = r.Thread
					}
					if r.Kind == exact.Unlocked && r.NS < last {
						t.Errorf("a record of %d comes after one of %d, and both had the mutex", r.NS, last)
					}
					if r.Kind == exact.Unlocked {
						last = r.NS
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				if time.Now().After(deadline) {
					t.Fatalf("records: %v, threads %v", kinds, threads)
				}
				time.Sleep(time.Millisecond)
			}
			counts, err := p.Counts()
			// Records are lost only if the ring is full. On a busy machine, the ring can be full before the first
			// Drain. So lost records are an error only if all records would have fitted into the ring. The ring adds a
			// header of 8 bytes to each record.
			lost := counts.Lost != 0 && counts.Hits < ringBytes/(recordSize+8)
			if err != nil || lost || counts.Hits < uint64(kinds[exact.Unlocked]+kinds[exact.Slept]) || counts.BusyNS <= 0 || p.HitNS <= 0 || p.CostNS(counts) <= counts.BusyNS {
				t.Errorf("%+v, a hit costs %d ns, %v", counts, p.HitNS, err)
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
			if n := rubytest.ChangedCode(t, w.PID); n != 0 {
				t.Errorf("%d bytes of its code are not the files'", n)
			}
		})
	})
}

// TestRingTooSmall: if a record has no room in the ring, the counter Lost counts it. After Stop and Detach, Drain
// returns at most as many records as fit into the ring.
func TestRingTooSmall(t *testing.T) {
	needBPF(t)
	needPerfEvents(t)
	rubytest.OldestAndNewest(t, func(t *testing.T, r rubytest.Ruby) {
		w := watch(t, r, busy, false)
		p, err := attachBy(w.proc, w.code, w.target, settings{many: false, ringBytes: 4096})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		for deadline := time.Now().Add(r.Timeout()); ; time.Sleep(time.Millisecond) {
			counts, err := p.Counts()
			if err != nil {
				t.Fatal(err)
			}
			if counts.Lost > 100 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%+v", counts)
			}
		}
		n := 0
		count := func(*exact.Record) { n++ }
		if err := p.Stop(); err != nil {
			t.Fatal(err)
		}
		if err := p.Detach(); err != nil { // a BPF program that was running when Stop was called still makes its record
			t.Fatal(err)
		}
		if err := p.Drain(count); err != nil || n == 0 || n > 4096/recordSize {
			t.Errorf("%d records, %v", n, err)
		}
		if n := rubytest.ChangedCode(t, w.PID); n != 0 {
			t.Errorf("%d bytes of its code are not the files'", n)
		}
	})
}

// TestTwoAtOnce: two ddtops can set their probes in the same process. If one of them removes its probes, the probes of
// the other one stay.
func TestTwoAtOnce(t *testing.T) {
	needBPF(t)
	rubytest.OldestAndNewest(t, func(t *testing.T, r rubytest.Ruby) {
		w := watch(t, r, busy, false)
		var both [2]*Probes
		for i := range both {
			var err error
			if both[i], err = Attach(w.proc, w.code, w.target); err != nil {
				t.Fatal(err)
			}
			defer both[i].Close()
		}
		if err := both[0].Close(); err != nil {
			t.Error(err)
		}
		n := 0
		for deadline := time.Now().Add(r.Timeout()); n < 100; time.Sleep(time.Millisecond) {
			if err := both[1].Drain(func(*exact.Record) { n++ }); err != nil {
				t.Fatal(err)
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d records", n)
			}
		}
		if err := both[1].Close(); err != nil {
			t.Error(err)
		}
		if n := rubytest.ChangedCode(t, w.PID); n != 0 {
			t.Errorf("%d bytes of its code are not the files'", n)
		}
	})
}

// TestProcessIsGone: if the process has ended, the ends of its threads are recorded, and Close returns no error.
func TestProcessIsGone(t *testing.T) {
	needBPF(t)
	rubytest.OldestAndNewest(t, func(t *testing.T, r rubytest.Ruby) {
		// The threads of the program sleep. The records of busy threads would fill the ring before it is read. Then the
		// records of the threads' ends would be lost.
		w := watch(t, r, "$stdout.sync = true\n4.times { Thread.new { sleep } }\nputs %q(ready)\n$stdin.gets", false)
		p, err := Attach(w.proc, w.code, w.target)
		if err != nil {
			t.Fatal(err)
		}
		w.Stop(t)
		exited := 0
		for deadline := time.Now().Add(r.Timeout()); exited < 4; time.Sleep(time.Millisecond) {
			if err := p.Drain(func(r *exact.Record) {
				if r.Kind == exact.Exited {
					exited++
				}
			}); err != nil {
				t.Fatal(err)
			}
			if time.Now().After(deadline) {
				t.Fatalf("the end of %d threads was recorded", exited)
			}
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestNotPlaced: the test makes Attach put probes at addresses that are not in the code that the process runs. Attach
// must find this out, remove the probes and return an error.
func TestNotPlaced(t *testing.T) {
	needBPF(t)
	rubytest.OldestAndNewest(t, func(t *testing.T, r rubytest.Ruby) {
		w := watch(t, r, busy, false)
		for i := range w.code.sites {
			w.code.sites[i].at += 1 << 10
			for j := range w.code.sites[i].callSites {
				w.code.sites[i].callSites[j].at += 1 << 10
			}
		}
		if _, err := Attach(w.proc, w.code, w.target); !errors.Is(err, ErrNotPlaced) {
			t.Errorf("%v", err)
		}
		if n := rubytest.ChangedCode(t, w.PID); n != 0 {
			t.Errorf("%d bytes of its code are not the files'", n)
		}
	})
}

func TestDecodeRefuses(t *testing.T) {
	var target Target
	if _, err := target.decode(make([]byte, recordSize-1)); err == nil {
		t.Error("a short record is none")
	}
}
