package ruby

import (
	"fmt"
	"path"
	"slices"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// labelled is a frame with its label in a form that is the same on every release. own is true if the frame is in one of
// the test program's own files.
type labelled struct {
	line   int32
	label  string
	c, own bool
}

// labelledFrames are the frames of the parked program's threads, innermost first, by the names of the threads.
func labelledFrames(t *testing.T, g *realTarget, truth rubytest.Truth) map[string][]labelled {
	t.Helper()
	all := make(map[string][]labelled)
	for _, thread := range g.threads(t) {
		name := g.name(t, thread)
		if _, ok := truth.Thread(name); !ok {
			continue
		}
		raw, ok := g.threadStack(t, thread, true)
		if !ok {
			t.Fatalf("thread %q has no stack", name)
		}
		id, _, err := g.dec.Decode(&raw)
		if err != nil {
			t.Fatalf("thread %q: %v", name, err)
		}
		all[name] = nil
		for _, f := range g.frames(id) {
			own := path.Base(f.Path) == "parked.rb" || path.Base(f.Path) == "parked_more.rb"
			all[name] = append(all[name], labelled{f.Line, f.Label + " / " + f.Name, f.C, own})
		}
	}
	return all
}

// TestLabelsOnEveryRelease: ddtop shows labels in the form that Ruby itself prints only from 3.4 on. For the same
// program on an older release, ddtop must show the same labels as on 3.4 or later. TestDecodeTruth compares the labels
// of 3.4 and later with Ruby's own.
func TestLabelsOnEveryRelease(t *testing.T) {
	newest := rubytest.One(t)
	if !newest.AtLeast(3, 4) {
		rubytest.Skip(t, "no Ruby 3.4 or later to say what labels look like")
	}
	p, truth := newest.StartParked(t, rubytest.Options{})
	want := labelledFrames(t, openTarget(t, p.PID), truth)
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		if r.AtLeast(3, 4) {
			return
		}
		p, truth := r.StartParked(t, rubytest.Options{})
		got := labelledFrames(t, openTarget(t, p.PID), truth)
		ruby, c := 0, 0
		for name, frames := range got {
			oracle, ok := want[name]
			if !ok {
				continue
			}
			ruby += compareRubyLabels(t, name, frames, oracle)
			for i, f := range frames {
				if !f.c {
					continue
				}
				c++
				// A C function of the older release may be Ruby code in the newer release, in a file of its own.
				same := func(w labelled) bool { return w.label == f.label }
				byDesign := missingByDesign[f.label] || newest.AtLeast(4, 0) && coveredByInternal[f.label]
				if !slices.ContainsFunc(oracle, same) && !byDesign {
					t.Errorf("thread %q, frame %d: C function %s is not there on %s", name, i, f.label, newest.Version)
				}
			}
		}
		if ruby < 1000 || c < 100 {
			t.Errorf("compared %d labels of Ruby frames and %d of C functions only", ruby, c)
		}
		t.Logf("Ruby %s: %d labels of Ruby frames compared, %d of C functions", r.Version, ruby, c)
	})
}

// missingByDesign are C functions that the program calls on older releases but not on newer ones. So the newer
// release's stack may lack them.
var missingByDesign = map[string]bool{
	"Thread::Mutex#lock / lock":      true, // called by Monitor, which was Ruby code around a Mutex up to 2.6
	"Class#new / new":                true, // called for Array, which has its own new in Ruby 3.4
	"Kernel#yield_self / yield_self": true, // an alias of Kernel#then on newer releases
	"Kernel.catch / catch":           true, // called by the library timeout, which used throw up to Ruby 3.1
}

// coveredByInternal are C functions that the interpreter's own Ruby code calls. Ruby 4.0 leaves them out of backtraces,
// and shows only their caller's frame, in a file <internal:….
var coveredByInternal = map[string]bool{
	"Thread::Mutex#sleep / sleep": true, // called by ConditionVariable#wait, which is Ruby code in 4.0
}

// compareRubyLabels compares the frames that are Ruby code on both releases. Before 3.4, a backtrace also shows the
// frame around a rescue or an ensure, with the same label.
func compareRubyLabels(t *testing.T, thread string, got, want []labelled) (compared int) {
	t.Helper()
	code := func(all []labelled) []labelled {
		return slices.DeleteFunc(slices.Clone(all), func(f labelled) bool { return f.c || !f.own })
	}
	g, w := code(got), code(want)
	i, j := 0, 0
	for i < len(g) {
		switch {
		case j < len(w) && g[i] == w[j]:
			i, j = i+1, j+1
			compared++
		case i > 0 && g[i].label == g[i-1].label:
			i++
		default:
			t.Errorf("thread %q, frame %d: got %v, want %s", thread, i, g[i], fmt.Sprint(w[min(j, len(w)):min(j+1, len(w))]))
			return compared
		}
	}
	if j != len(w) {
		t.Errorf("thread %q: %d frames of %d are missing, the first is %v", thread, len(w)-j, len(w), w[j])
	}
	return compared
}
