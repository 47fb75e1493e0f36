package ruby

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

//go:embed testdata/chains.rb
var chainsProgram string

// chainRaces lists the programs of the script chains.rb. ddtop has several ways to read a running stack, such as
// wayTwice. Each program's entry lists the ways that the test must see at least once.
var chainRaces = []struct {
	name string
	ways []way
}{
	{"20", []way{wayTwice, wayMore, waySame}},
	{"pace", []way{wayMore, wayDoubt}},
	{"60", []way{wayTwice, wayMore, waySuffix}},
	{"200", []way{wayMore, wayPart, waySuffix}},
	{"600", []way{wayMore, wayPart}},
	{"4000", []way{wayCut, wayDeep, wayPart}},
	{"jump", []way{wayMore, wayPart, waySuffix}},
	{"steps", []way{wayGrown}},
	{"shared", []way{wayTwice, wayMore, waySuffix}},
	{"blocks", []way{wayMore, wayPart}},
	{"sent", []way{wayMore, wayPart}},
	{"raise", []way{wayMore}},
	{"fibers", []way{waySeen, wayFiber}},
	{"births", []way{waySeen}},
	{"rests", []way{wayOnce, wayResting, wayTwice}},
}

// chainFrame matches the name of a method in chains.rb, such as a_12: the chain's name, and the method's number in the
// chain.
var chainFrame = regexp.MustCompile(`^([a-z])_(\d+)$`)

// impossibleChain says why the program cannot have a stack with these methods, innermost first. The result is empty if
// the stack is possible. Every chain begins with its method 0 and continues without a gap. Only the last method of the
// chain named s calls another chain. cut is true if the stack lacks its middle.
func impossibleChain(names []string, cut bool) string {
	last, at := "", -1
	for _, name := range slices.Backward(names) {
		m := chainFrame.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		n, err := strconv.Atoi(m[2])
		if err != nil {
			return err.Error()
		}
		switch {
		case last == "" && n != 0:
			return fmt.Sprintf("begins with %s in %s", name, names)
		case last == "s" && m[1] != "s" && at == 29 && n == 0, last == "":
		case m[1] != last:
			return fmt.Sprintf("%s called by %s_%d", name, last, at)
		case n != at && n != at+1 && !(cut && n > at):
			return fmt.Sprintf("%s called by %s_%d", name, last, at)
		}
		last, at = m[1], n
	}
	return ""
}

// TestNoImpossibleChains: threads replace their whole stacks again and again while ddtop reads them. ddtop never shows
// a stack that the program cannot have.
func TestNoImpossibleChains(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		for _, v := range r.Variants(t) {
			if v.Name == "mn" || v.Name != "plain" && !chainsUnderJIT {
				continue
			}
			for _, c := range chainRaces {
				t.Run(v.Name+" "+c.name, func(t *testing.T) {
					p := r.Start(t, chainsProgram, v.Apply(rubytest.Options{Args: []string{c.name}}))
					p.Expect(t, "ready")
					apart(t, p.PID)
					raceChains(t, openReader(t, p.PID), c.ways)
				})
			}
		}
	})
}

// raceChains takes samples until two conditions are met: the program has changed its stack during enough of them, and
// all wanted ways were used. If other processes hold the CPUs and the program hardly runs, it stops after a time limit.
func raceChains(t *testing.T, rd *Reader, want []way) {
	var s sampler.Sample
	names := map[sampler.StackID][]string{}
	of := func(id sampler.StackID) []string {
		list, ok := names[id]
		if !ok {
			for _, f := range rd.dict.Frames(id, nil) {
				list = append(list, rd.dict.Frame(f).Name)
			}
			names[id] = list
		}
		return list
	}
	last := map[sampler.ThreadID]sampler.StackID{}
	samples, raced, stacks, resumed, wrong := 0, 0, 0, 0, 0
	missing := func() int { return slices.IndexFunc(want, func(w way) bool { return rd.stacks.ways[w] == 0 }) }
	began := time.Now()
	enough := func() bool {
		return missing() < 0 && (raced >= chainSamples || raced >= chainSamples/racedShare && time.Since(began) > chainTime)
	}
	for ; !enough() && time.Since(began) < raceTime; samples++ {
		// Every second tick reads only locks and the stacks of a few threads. These threads hold the GVL, or have just
		// released it.
		depth := sampler.StackTick
		if samples%2 == 1 {
			depth = sampler.LockTick
		}
		if err := rd.Read(depth, &s); err != nil {
			continue
		}
		changed := false
		for i := range s.Threads {
			th := &s.Threads[i]
			if th.Quality&sampler.StackFailed != 0 || th.Stack == 0 {
				continue
			}
			changed = changed || th.Stack != last[th.ID]
			last[th.ID] = th.Stack
			stacks++
			list := of(th.Stack)
			if doubtful(rd.dict, th.Stack) {
				list = list[1:]
			}
			what := impossibleChain(list, th.Quality&sampler.StackTruncated != 0)
			for _, id := range th.Resumers {
				resumed++
				if what == "" {
					what = impossibleChain(of(id), false)
				}
			}
			if what == "" && len(th.Resumers) > 0 {
				what = impossibleResume(list, of(th.Resumers[0]))
			}
			if what != "" {
				if wrong++; wrong < 10 {
					t.Errorf("impossible stack: %s (quality %b)", what, th.Quality)
				}
			}
		}
		if changed {
			raced++
		}
	}
	t.Logf("%d samples, %d raced, %d stacks, %d of resumers: %d impossible; ways %s; torn %d, retried %d, partial %d, failed %d",
		samples, raced, stacks, resumed, wrong, rd.stacks.waysTaken(), rd.reads.Torn, rd.reads.Retried, rd.reads.Partial, rd.reads.Failed)
	if raced < chainSamples/racedShare {
		rubytest.TooSeldom(t, "only %d samples raced with the program in %v: it hardly ran while it was read", raced, raceTime)
	}
	if i := missing(); i >= 0 {
		rubytest.TooSeldom(t, "no stack was read by way of %q in %v", want[i], raceTime)
	}
}

// impossibleResume says why the fiber with the stack "resumer" cannot have resumed the fiber with the stack "fiber".
// The result is empty if this is possible. In the program, only p resumes a, and only q resumes b.
func impossibleResume(fiber, resumer []string) string {
	for _, f := range fiber {
		for _, by := range resumer {
			m, n := chainFrame.FindStringSubmatch(f), chainFrame.FindStringSubmatch(by)
			if m != nil && n != nil && (m[1] == "a" && n[1] == "q" || m[1] == "b" && n[1] == "p") {
				return fmt.Sprintf("the fiber of %s resumed by %s", f, by)
			}
		}
	}
	return ""
}

// waysTaken returns a text that says how many stacks were read in each way.
func (r *stackReader) waysTaken() string {
	out := ""
	for w, n := range r.ways {
		out += fmt.Sprintf("%s %d ", way(w), n)
	}
	return out
}

// doubtful reports whether the innermost frame of a stack is marked as doubtful. It returns false if only the frame's
// line is doubtful.
func doubtful(d *sampler.Dictionary, stack sampler.StackID) bool {
	_, id := d.Stack(stack)
	f := d.Frame(id)
	return f.Doubtful()
}
