package probe

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler/exact"
)

// everyWay has threads that give the GVL away and get it back in every way that Ruby has: time slices, Thread.pass,
// timed and endless sleeps, I/O, Mutex, Queue, ConditionVariable, threads that begin and end, child processes, and the
// collector.
const everyWay = `$stdout.sync = true
m, c, q, r, w = Mutex.new, ConditionVariable.new, Queue.new, *IO.pipe
2.times { Thread.new { loop { 2_000_000.times { }; sleep 0.5 } } }
Thread.new { loop { Thread.pass; sleep 0 } }
Thread.new { loop { sleep 0.001 } }
Thread.new { loop { w.write("x"); sleep 0.001 } }
Thread.new { loop { r.readpartial(10) } }
Thread.new { loop { q.push(1); sleep 0.001 } }
Thread.new { loop { q.pop } }
2.times { Thread.new { loop { m.synchronize { c.wait(m, 0.001); c.signal; sleep 0.0005 } } } }
Thread.new { loop { Thread.new { sleep 0.0001 }.join } }
Thread.new { loop { Process.wait(fork { exit! }); GC.start; sleep 0.05 } }
puts "ready"
$stdin.gets`

// sleepsFirst has a thread that sleeps in short steps after the process has read a line. After a second line, the
// process continues as everyWay. The main thread only waits, because up to Ruby 3.2 the main thread sleeps in poll(2),
// and other threads in pthread_cond_timedwait (native_sleep in thread_pthread.c).
const sleepsFirst = `$stdout.sync = true
puts "ready"
$stdin.gets
Thread.new { 100.times { sleep 0.001 } }.join
puts "slept"
$stdin.gets
` + everyWay

// TestNarrowMissesNothing: after Narrow has removed most probes, the remaining ones still make all records. To prove
// this, the same process also has probes in the functions themselves, which miss nothing. So each thread makes a record
// at a call site, and then the same record in the called function. At first the process only sleeps, and Narrow runs.
// So a call site that waits with any mutex has many hits with other mutexes first. The test needs a real Ruby, because
// only this calls its functions in all ways.
func TestNarrowMissesNothing(t *testing.T) {
	needBPF(t)
	if many, err := checkMachine(false); err != nil || !many {
		rubytest.Skip(t, "this kernel has no links of many probes that know processes (%v)", err)
	}
	rubytest.Each(t, func(t *testing.T, r rubytest.Ruby) {
		w := watch(t, r, sleepsFirst, false)
		w.target.Stacks = false // copies of stacks would make room in the ring scarce
		calls := attached(t, &w, settings{many: true, ringBytes: ringBytes})
		if len(calls.calls) == 0 {
			t.Fatal("no probe is at a call site")
		}
		all := calls.callSites
		w.Send(t, "sleep")
		w.Expect(t, "slept")
		calls.Narrow(false)
		w.Send(t, "begin")
		w.Expect(t, "ready")
		// Call sites without hits keep their probes. So the test waits until most hits make a record.
		for deadline := time.Now().Add(r.Timeout()); ; {
			calls.Narrow(false)
			hits, records := during(t, calls, 100*time.Millisecond)
			if hits > 20 && float64(records) > .8*float64(hits) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d of %d hits made a record", records, hits)
			}
		}
		narrowed := placed(calls)
		rubytest.Report(t, "%d of %d call sites keep their probe", narrowed, all)
		entries := attached(t, &w, settings{many: true, entries: true, ringBytes: ringBytes})
		drop(t, calls)
		var got []theirs
		kinds := make(map[exact.Kind]int)
		for deadline := time.Now().Add(r.Timeout()); kinds[exact.Unlocked] < 2000 || kinds[exact.Slept] < 50 || kinds[exact.Signalled] < 200; time.Sleep(time.Millisecond) {
			// Each call makes a record at the call site first, then one in the function. So read the call sites'
			// records last. Otherwise the first record of a pair could be missing.
			for _, p := range []*Probes{entries, calls} {
				if err := p.Drain(func(r *exact.Record) {
					got = append(got, theirs{*r, p == entries})
					if p == entries {
						kinds[r.Kind]++
					}
				}); err != nil {
					t.Fatal(err)
				}
			}
			if time.Now().After(deadline) {
				t.Fatalf("records: %v", kinds)
			}
		}
		for _, p := range []*Probes{calls, entries} {
			if c, err := p.Counts(); err != nil || c.Lost != 0 {
				rubytest.Skip(t, "the machine was too slow to read %d records (%v)", c.Lost, err)
			}
		}
		if n := alternates(t, got); n < 2000 {
			t.Errorf("only %d records were compared", n)
		}
		if calls.Narrow(true); placed(calls) != all {
			t.Errorf("%d of %d call sites have a probe again", placed(calls), all)
		}
		for _, p := range []*Probes{calls, entries} {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		}
		if n := rubytest.ChangedCode(t, w.PID); n != 0 {
			t.Errorf("%d bytes of its code are not the files'", n)
		}
	})
}

// theirs is a record that also says where it comes from. entry is true if the record's probe is in a function, and
// false if the probe is at a call site.
type theirs struct {
	exact.Record
	entry bool
}

// alternates checks that each thread's records come in pairs: from a call site, and then the same from the function. It
// returns the number of pairs. Only a thread's first and last records may be single.
func alternates(t *testing.T, all []theirs) (pairs int) {
	t.Helper()
	of := make(map[int32][]theirs)
	for _, r := range all {
		if r.Kind != exact.Exited {
			of[r.TID] = append(of[r.TID], r)
		}
	}
	for tid, records := range of {
		records = releases(records)
		slices.SortStableFunc(records, func(a, b theirs) int { return cmp.Compare(a.NS, b.NS) })
		for len(records) > 0 && records[0].entry {
			// the record at the call site was made before the first Drain of the call sites' probes
			records = records[1:]
		}
		for len(records) > 0 && !records[len(records)-1].entry {
			// the record in the function was made after the last Drain of the functions' probes
			records = records[:len(records)-1]
		}
		for i := 0; i+1 < len(records); i += 2 {
			a, b := records[i], records[i+1]
			if a.entry || !b.entry || a.Kind != b.Kind || a.Thread != b.Thread || a.Kind != exact.Signalled && a.Owner != b.Owner {
				t.Errorf("thread %d, record %d of %d: %+v, and then %+v", tid, i, len(records), a, b)
				return pairs
			}
			pairs++
		}
	}
	return pairs
}

// releases leaves out each record of Kind Signalled that a thread made without having had the GVL before. The Machine
// ignores such records (Feed).
func releases(records []theirs) (out []theirs) {
	had := make(map[bool]bool)
	for _, r := range records {
		if r.Kind != exact.Signalled {
			had[r.entry] = r.Owner == r.Thread
		} else if !had[r.entry] {
			continue
		}
		out = append(out, r)
	}
	return out
}

func attached(t *testing.T, w *watched, o settings) *Probes {
	t.Helper()
	p, err := attachBy(w.proc, w.code, w.target, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// during waits for the duration d. It returns the number of hits in this time, and how many of them made records.
func during(t *testing.T, p *Probes, d time.Duration) (hits uint64, records int) {
	t.Helper()
	drop(t, p)
	before, err := p.Counts()
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(d)
	after, err := p.Counts()
	if err != nil {
		t.Fatal(err)
	}
	return after.Hits - before.Hits, drop(t, p)
}

// drop reads and discards all records in the ring, so that the ring has room again. It returns how many of them come
// from probes.
func drop(t *testing.T, p *Probes) (n int) {
	t.Helper()
	err := p.Drain(func(r *exact.Record) {
		if r.Kind != exact.Exited {
			n++
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// placed returns how many call sites have a probe.
func placed(p *Probes) (n int) {
	for _, c := range p.calls {
		n += len(c.placed)
	}
	return n
}

// TestEveryCallIsAnInstruction: some bytes only look like a call of a function. Only true calls and jumps get probes.
// If ddtop cannot tell a true call from such bytes, it returns an error. The test makes up code, because the code of a
// real Ruby does not have all of these cases.
func TestEveryCallIsAnInstruction(t *testing.T) {
	const at = 0x1000
	for name, c := range map[string]struct {
		code    []byte
		addr    uint64
		is, bad bool
	}{
		"a call":                          {[]byte{0x90, 0xe8, 1, 2, 3, 4}, at + 1, true, false},
		"a jump":                          {[]byte{0xf3, 0x0f, 0x1e, 0xfa, 0xe9, 1, 2, 3, 4}, at + 4, true, false},
		"within the number of a mov":      {[]byte{0x48, 0xb8, 0xe8, 1, 2, 3, 4, 5, 6, 7, 0xc3}, at + 2, false, false},
		"a conditional jump":              {[]byte{0x0f, 0x84, 1, 2, 3, 4}, at + 1, false, true},
		"a call with a prefix":            {[]byte{0xf2, 0xe8, 1, 2, 3, 4}, at + 1, false, true},
		"behind bytes that are no code":   {[]byte{0x06, 0xe8, 1, 2, 3, 4}, at + 1, false, true},
		"at the end, with a byte missing": {[]byte{0x90, 0xe8, 1, 2, 3}, at + 1, false, false},
	} {
		is, err := callsAt(&attach.CodeSection{Addr: at, Bytes: c.code}, at, c.addr)
		if is != c.is || err != nil != c.bad {
			t.Errorf("%s: %v, %v", name, is, err)
		}
	}
}
