package switches

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/exact"
)

// TestDoing: from the records of a thread, ddtop finds what the thread does with and without the GVL. Times are in µs.
func TestDoing(t *testing.T) {
	call := func(name string, args ...uint64) func(*Record) {
		return func(r *Record) {
			r.Name, r.Descriptor, r.FD = name, name == "read", -1
			copy(r.Args[:], args)
			if name == "poll" {
				r.FD = 9
			}
		}
	}
	clock := func(r *Record) { r.Kind = Clock; computes(r) }
	collects := func(r *Record) { r.Collects = true }
	asked := func(r *Record) { r.Region = false }
	locks := func(r *Record) { r.Mutex = 0x500 }
	for _, c := range []struct {
		name    string
		records []Record
		want    string
	}{
		{"reads", []Record{out(tid1, 100, 200, with(without, call("read", 7)))}, "released 197: sleeps in read 7"},
		{"polls, and again", []Record{out(tid1, 100, 200, with(without, call("poll", 1, 2))), out(tid1, 300, 310, with(without, call("poll", 1, 2)))},
			"released 197: sleeps in poll 9 of 2; released 307: sleeps in poll 9 of 2"},
		{"selects nothing, and a set", []Record{out(tid1, 100, 200, with(without, call("select"))), out(tid1, 300, 310, with(without, call("select", 5)))},
			"released 197: sleeps in select -1; released 307: sleeps in select -1 of 1"},
		{"locks a Mutex", []Record{out(tid1, 100, 200, with(without, call("futex"), locks))}, "released 197: sleeps in futex -1 for 0x500"},
		{"computes without the GVL", []Record{out(tid1, 100, 200, with(holds, computes)), out(tid1, 200, 400, with(without, func(r *Record) { r.GaveNS = 250 * us }, call("read", 7))),
			out(tid1, 500, 900, with(without, computes))}, "released 250: runs; released 400: sleeps in read 7; released 500: runs"},
		{"collects for a while", []Record{out(tid1, 100, 200, with(holds, clock)), out(tid1, 100, 300, with(holds, clock, collects)), out(tid1, 100, 400, with(holds, clock))},
			"held 250: collects; held 350: runs"},
		{"sleeps with the GVL", []Record{out(tid1, 100, 200, with(holds, call("read", 7))), out(tid1, 500, 600, with(holds, clock))},
			"held 200: sleeps in read 7; held 500: runs"},
		{"is woken, and has to wait for a CPU", []Record{out(tid1, 100, 200, with(without, call("read", 7))),
			out(tid1, 600, 610, with(without, call("read", 7), func(r *Record) { r.WokenNS = 300 * us }))},
			"released 197: sleeps in read 7; released 300: runs; released 607: sleeps in read 7"},
		{"is woken from a sleep of Ruby's, and has to wait for a CPU", []Record{out(tid1, 100, 200, with(without, call("futex"), asked)),
			out(tid1, 600, 610, with(queued, func(r *Record) { r.WokenNS = 300 * us }))}, "released 197: sleeps in futex -1"},
		{"is woken, and has a CPU at once", []Record{out(tid1, 100, 200, with(without, call("read", 7))),
			out(tid1, 600, 610, with(queued, call("read", 7), func(r *Record) { r.WokenNS = 590 * us }))}, "released 197: sleeps in read 7"},
		{"has no CPU while it locks a Mutex", []Record{out(tid1, 100, 200, with(holds, computes)),
			out(tid1, 200, 400, with(without, computes, locks, func(r *Record) { r.GaveNS = 395 * us }))}, "released 395: runs for 0x500"},
		{"waits", []Record{out(tid1, 100, 200, with(queued, call("futex")))}, ""},
	} {
		var got []string
		m := NewMachine(exact.NewMachine(func(x *exact.Change) {
			d := &x.Doing
			if d.Kind == sampler.DoingUnknown {
				return
			}
			text := fmt.Sprintf("%v %d: %s", x.State, x.AtNS/1000, []string{"", "runs", "collects", "sleeps"}[d.Kind])
			if d.Kind == sampler.DoingSleeps {
				text += fmt.Sprintf(" in %s %d", d.Syscall, d.FD)
				if d.FD < 0 && d.FDs > 0 || d.FDs > 1 {
					text += fmt.Sprintf(" of %d", d.FDs)
				}
			}
			if d.Mutex != 0 {
				text += fmt.Sprintf(" for %#x", d.Mutex)
			}
			got = append(got, text)
		}))
		begin := Record{Kind: Began, TID: tid1, Thread: one, Region: true, Syscall: -1}
		m.Feed(&begin)
		for _, r := range c.records {
			m.Feed(&r)
		}
		m.Advance(1000 * us)
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%s: %q, not %q", c.name, text, c.want)
		}
	}
}
