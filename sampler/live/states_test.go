package live_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/odds"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// watched counts, for each thread, in how many samples it was in each state.
type watched struct {
	ns     map[string]map[gvl.State]int // samples per thread name and state
	last   map[string]gvl.ThreadState
	sample *sampler.Sample
}

// watch samples a process until done returns true. It begins to count at the first sample for which settled returns
// true. It fails the test after rubytest.Timeout.
func watch(t *testing.T, s *live.Source, settled func(state map[string]gvl.State) bool, done func(w *watched, n int) bool) *watched {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), rubytest.Timeout)
	defer cancel()
	dict := s.Dictionary()
	c := gvl.NewClassifier(s.Process(), dict)
	w := &watched{ns: map[string]map[gvl.State]int{}, last: map[string]gvl.ThreadState{}}
	n, finished, ready := 0, false, false
	err := s.Run(ctx, func(sample *sampler.Sample) {
		if finished {
			return
		}
		states := c.Classify(sample)
		if !ready {
			now := map[string]gvl.State{}
			for i, st := range states {
				info, _ := dict.Thread(sample.Threads[i].ID)
				now[info.Name] = st.State
			}
			ready = settled(now)
			return
		}
		for i, st := range states {
			info, _ := dict.Thread(sample.Threads[i].ID)
			if w.ns[info.Name] == nil {
				w.ns[info.Name] = map[gvl.State]int{}
			}
			w.ns[info.Name][st.State]++
			w.last[info.Name] = st
		}
		w.sample = sample.Clone()
		n++
		if done(w, n) {
			finished = true
			cancel()
		}
	})
	if err != nil {
		t.Fatalf("sampling: %v", err)
	}
	if !finished {
		rubytest.TooSeldomNow(t, "not seen within %v; seen: %v", rubytest.Timeout, w.ns)
	}
	return w
}

// TestStates compares the state of each thread, and what the thread waits for, with what the program reports.
func TestStates(t *testing.T) {
	rubytest.OftenEnough(t)
	groups := map[string][]string{
		"waits": nil,
		"spin":  {rubytest.GroupSpin},
		"gc":    {rubytest.GroupGC},
		"native": {
			rubytest.GroupNative,
		},
		"stalled": {rubytest.GroupStalled},
	}
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		for name, group := range groups {
			t.Run(name, func(t *testing.T) {
				p, said := r.StartStates(t, rubytest.Options{}, group...)
				s := open(t, p.PID, live.Options{})
				checkStates(t, s, said)
			})
		}
	})
}

// TestStatesMN is like TestStates, but with Ruby's M:N threads (3.3 and later). Such a thread has no native thread
// while it waits, so the kernel knows nothing about it.
func TestStatesMN(t *testing.T) {
	rubytest.OftenEnough(t)
	eachVariant(t, true, func(t *testing.T, r rubytest.Ruby, v rubytest.Variant) {
		if v.Name != "mn" {
			return
		}
		p, said := r.StartStates(t, v.Apply(rubytest.Options{}))
		checkStates(t, open(t, p.PID, live.Options{}), said)
	})
}

func checkStates(t *testing.T, s *live.Source, said rubytest.States) {
	dict := s.Dictionary()
	// The program has reported that all threads have begun. But threads that compute keep the GVL busy. So some threads
	// may still wait for the GVL before they reach the state that the test expects.
	settled := func(now map[string]gvl.State) bool {
		for _, th := range said.Threads {
			if len(th.States) == 1 && now[th.Name].String() != th.States[0] {
				return false
			}
		}
		return true
	}
	// Few samples must be enough: if nothing runs in a program, ddtop soon samples it only thirty times a second.
	atLeast := 300
	if rubytest.Short(t) {
		atLeast = 100
	}
	// If other programs use the CPUs, a thread can be in a wrong state for many samples in a row. Such a row counts
	// only once, but the wrong state must end.
	wrong, strays := map[string]int{}, map[string]bool{}
	w := watch(t, s, settled, func(w *watched, n int) bool {
		settled := true
		for _, th := range said.Threads {
			stray := len(w.ns[th.Name]) > 0 && len(th.States) > 0 && !slices.Contains(th.States, w.last[th.Name].State.String())
			if stray && !strays[th.Name] {
				wrong[th.Name]++
			}
			strays[th.Name], settled = stray, settled && !stray
		}
		if n < atLeast || !settled && n < 20000 {
			return false
		}
		// The address of a socket that is still connecting is known only later. ddtop reads it from the kernel's tables
		// once a second.
		if th := w.last["connect"]; n < 20000 && dict.Peer(th.Detail.Peer).Remote == "" && len(w.ns["connect"]) > 0 {
			return false
		}
		for _, th := range said.Threads {
			for _, must := range th.Must {
				if st, ok := gvl.ParseState(must); !ok || w.ns[th.Name][st] == 0 {
					return n > 20000
				}
			}
		}
		return true
	})
	for _, th := range said.Threads {
		seen := w.ns[th.Name]
		if len(seen) == 0 {
			rubytest.TooSeldom(t, "%s: never seen; the dictionary has %v", th.Name, names(s))
			continue
		}
		right := 0
		for st, n := range seen {
			if len(th.States) == 0 || slices.Contains(th.States, st.String()) {
				right += n
			}
		}
		// A thread that waits is in exactly one state. Still, one of a hundred samples may have a wrong state, because
		// ddtop does not ask the kernel at every sample.
		if strays[th.Name] || wrong[th.Name] > odds.AtMost(right+wrong[th.Name], .01) {
			t.Errorf("%s: seen %v, the program says %v (%s)", th.Name, seen, th.States, gvl.Describe(w.last[th.Name], dict))
		}
		for _, must := range th.Must {
			if st, _ := gvl.ParseState(must); seen[st] == 0 {
				rubytest.TooSeldom(t, "%s: never seen %s; seen %v", th.Name, must, seen)
			}
		}
		if problem := checkDetail(th, w.last[th.Name], s); problem != "" {
			t.Errorf("%s (%s): %s", th.Name, gvl.Describe(w.last[th.Name], dict), problem)
		}
	}
}

// names lists the threads that the dictionary of s has, each with its TID and its name.
func names(s *live.Source) []string {
	var out []string
	for id := sampler.ThreadID(1); ; id++ {
		info, ok := s.Dictionary().Thread(id)
		if !ok {
			return out
		}
		out = append(out, fmt.Sprintf("%d:%s", info.TID, info.Name))
	}
}

// checkDetail compares what a thread waits for, according to ddtop, with what the program reports. It returns a text
// about the difference, or "".
func checkDetail(th rubytest.StateTruth, got gvl.ThreadState, s *live.Source) string {
	dict, d := s.Dictionary(), got.Detail
	if len(th.States) > 0 && got.State.String() != th.States[0] {
		return "" // up to 3.2, a sleeping thread wakes up now and then, to end the time slices of other threads
	}
	name := func(id sampler.ThreadID) string {
		info, _ := dict.Thread(id)
		return info.Name
	}
	if th.Object != "" && d.Kind != th.Object {
		return fmt.Sprintf("waits for a %q, the program says %s", d.Kind, th.Object)
	}
	if th.Holder != "" {
		if holder := name(max(d.Holder, d.Joined)); holder != th.Holder {
			return fmt.Sprintf("held by %q, the program says %s", holder, th.Holder)
		}
	}
	if len(th.FDs) > 0 && !slices.Contains(th.FDs, d.FD) {
		return fmt.Sprintf("waits for fd %d, the program says %v", d.FD, th.FDs)
	}
	if th.Child != 0 && int(d.Child) != th.Child {
		return fmt.Sprintf("waits for process %d, the program says %d", d.Child, th.Child)
	}
	peer := dict.Peer(d.Peer)
	if th.Remote != "" && peer.Remote != th.Remote {
		return fmt.Sprintf("peer %+v, the program says %s", peer, th.Remote)
	}
	return ""
}

// TestNeverTwoHolders samples threads that hand the GVL to each other. In no sample may two threads of one ractor hold
// the GVL.
func TestNeverTwoHolders(t *testing.T) {
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		p, _ := r.StartStates(t, rubytest.Options{}, rubytest.GroupSpin, rubytest.GroupGC)
		s := open(t, p.PID, live.Options{LockRate: 5000})
		c := gvl.NewClassifier(s.Process(), s.Dictionary())
		// The time limit is long, because on a full machine ddtop takes only one of a hundred samples.
		ctx, cancel := context.WithTimeout(context.Background(), rubytest.Timeout)
		defer cancel()
		n, two := 0, 0
		err := s.Run(ctx, func(sample *sampler.Sample) {
			held := map[sampler.RactorID]int{}
			for i, st := range c.Classify(sample) {
				if st.State.Held() {
					held[sample.Threads[i].Ractor]++
				}
			}
			for _, k := range held {
				if k > 1 {
					two++
				}
			}
			if n++; n == 5000 {
				cancel()
			}
		})
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if n < 5000 {
			t.Fatalf("%d samples in 5 minutes", n)
		}
		if two > 0 {
			t.Errorf("%d of %d samples have two holders in a ractor", two, n)
		}
	})
}
