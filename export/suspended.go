package export

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxFiberServing limits how many requests and jobs of suspended fibers are listed. The text puts fibers with the
	// same stack into one group. maxFiberEndpoints limits how many different requests and jobs it names for a group.
	maxFiberServing   = 5000
	maxFiberEndpoints = 6
)

// SetFibers adds the suspended fibers to the threads that they belong to.
func (d *Dump) SetFibers(f sampler.Fibers, dict *sampler.Dictionary) {
	d.SuspendedFibers = &report.DumpSuspended{Cut: f.Cut, ReadNS: f.ReadNS}
	type key struct {
		thread  sampler.ThreadID
		stack   sampler.StackID
		created bool
	}
	counts := make(map[key]int)
	serving := make(map[key][]report.StatServing)
	listed := 0
	var order []key
	for _, x := range f.List {
		k := key{x.Thread, x.Stack, x.Created}
		if counts[k]++; counts[k] == 1 {
			order = append(order, k)
		}
		if q, ok := account.ServingOf(x.Serving, f.AtNS, dict); ok {
			if q.Number != 0 {
				d.SuspendedFibers.Requests++
			}
			if listed++; listed <= maxFiberServing {
				serving[k] = append(serving[k], q)
			}
		}
		d.SuspendedFibers.Count++
		if x.Created {
			d.SuspendedFibers.Created++
		}
	}
	sorting.StableBy(order, func(a, b key) int { return cmp.Compare(counts[b], counts[a]) })
	for _, k := range order {
		i := slices.IndexFunc(d.Threads, func(t report.DumpThread) bool { return t.ID == k.thread })
		if i < 0 {
			continue // the thread ended or began between the reading of threads and of fibers
		}
		t := &d.Threads[i]
		t.Suspended = append(t.Suspended, report.DumpSuspendedFibers{
			Count: counts[k], Created: k.created, Frames: dumpFrames(dict, k.stack), Serving: append([]report.StatServing{}, serving[k]...),
		})
	}
}

// suspended writes the fibers of a thread that are suspended.
func (t *dumpText) suspended(list []report.DumpSuspendedFibers) {
	for _, f := range list {
		n := fmt.Sprintf("%d fibers", f.Count)
		if f.Count == 1 {
			n = "1 fiber"
		}
		switch {
		case f.Created:
			t.printf("  %s not started yet\n", n)
		case len(f.Frames) == 0:
			t.printf("  %s suspended (the stack could not be read)\n", n)
		default:
			t.printf("  %s suspended:\n", n)
			t.fibersServe(f.Serving)
			t.frames(f.Frames)
		}
	}
}

// fibersServe writes the requests and jobs for which a group of fibers with the same stack works. It writes a line for
// each route or class of jobs, the most frequent first.
func (t *dumpText) fibersServe(list []report.StatServing) {
	counts := make(map[string]int)
	var names []string
	for i := range list {
		if q := &list[i]; q.Number != 0 {
			name := ServingName(q)
			if counts[name]++; counts[name] == 1 {
				names = append(names, name)
			}
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(counts[b], counts[a]) })
	for _, name := range names[:min(len(names), maxFiberEndpoints)] {
		t.printf("    %d for %s\n", counts[name], name)
	}
	if n := len(names) - maxFiberEndpoints; n > 0 {
		t.printf("    and for %d more\n", n)
	}
}

// fibers writes a line with the number of suspended fibers of all threads.
func (t *dumpText) fibers() {
	f := t.d.SuspendedFibers
	if f == nil || f.Count == 0 {
		return
	}
	t.printf("fibers: %d suspended", f.Count-f.Created)
	if f.Created > 0 {
		t.printf(", %d not started yet", f.Created)
	}
	if f.Requests > 0 {
		t.printf(", %d of them for requests and jobs", f.Requests)
	}
	if f.Cut {
		t.printf(" (and perhaps more: only a part of the heap was looked through)")
	}
	t.printf("\n")
}
