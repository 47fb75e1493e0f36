package ruby

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// TestDecodeTruth: for about 250 waiting threads, ddtop must find the same frames as Ruby's own backtraces. The test
// compares which frames there are, their paths and lines, and from 3.4 on their labels.
func TestDecodeTruth(t *testing.T) {
	rubytest.EachRelease(t, func(t *testing.T, r rubytest.Ruby) {
		p, truth := r.StartParked(t, rubytest.Options{})
		g := openTarget(t, p.PID)
		for _, values := range []bool{true, false} {
			compareThreads(t, g, truth, values)
		}
	})
}

// TestDecodeTruthJIT is like TestDecodeTruth, but YJIT compiles all code from its first call on.
func TestDecodeTruthJIT(t *testing.T) {
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		if !r.AtLeast(3, 1) {
			return // YJIT came with 3.1
		}
		p, truth := r.StartParked(t, rubytest.Options{RubyArgs: []string{"--yjit", "--yjit-call-threshold=1"}})
		g := openTarget(t, p.PID)
		if g.vm.Description != truth.Description {
			t.Errorf("got the description %q, want %q", g.vm.Description, truth.Description)
		}
		if !strings.Contains(truth.Description, "+YJIT") {
			t.Logf("%s was built without YJIT", r)
			return
		}
		if early := r.AtLeast(3, 1) && !r.AtLeast(3, 2); g.vm.EarlyFrames != early {
			t.Errorf("EarlyFrames is %t", g.vm.EarlyFrames)
		}
		compareThreads(t, g, truth, true)
	})
}

// TestDecodeTruthAfterGC is like TestDecodeTruth, but it compares again after two full collections and a compaction.
// The compaction moves iseqs, methods and names that the Decoder has kept.
func TestDecodeTruthAfterGC(t *testing.T) {
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		p, truth := r.StartParked(t, rubytest.Options{})
		g := openTarget(t, p.PID)
		compareThreads(t, g, truth, true)
		for i, command := range []string{"gc", "compact", "gc"} {
			truth = p.Retell(t, command)
			n := uint64(i + 1)
			if err := g.dec.Revalidate(int64(n), sampler.GC{Valid: true, Count: n, MajorCount: n}); err != nil {
				t.Fatal(err)
			}
			compareThreads(t, g, truth, true)
		}
	})
}

// TestDecodeFibers: ddtop reads the stacks of the fibers that have resumed the running fiber. They must equal Ruby's
// own, on releases that report them.
func TestDecodeFibers(t *testing.T) {
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		p, truth := r.StartParked(t, rubytest.Options{})
		g := openTarget(t, p.PID)
		compared := 0
		for _, thread := range g.threads(t) {
			want, _ := truth.Thread(g.name(t, thread))
			ec := g.word(t, thread+g.off(t, "rb_thread_struct.ec"))
			fiber := g.word(t, ec+g.off(t, "rb_execution_context_struct.fiber_ptr"))
			for i, f := range want.Fibers {
				if fiber = g.word(t, fiber+g.off(t, "rb_fiber_struct.prev")); fiber == 0 {
					t.Fatalf("thread %q: fiber %d is not there", want.Name, i)
				}
				raw, ok := g.stack(t, fiber+g.off(t, "rb_fiber_struct.cont.saved_ec"), false)
				if !ok {
					t.Fatalf("thread %q: fiber %d has no stack", want.Name, i)
				}
				id, _, err := g.dec.Decode(&raw)
				if err != nil {
					t.Fatalf("thread %q: fiber %d: %v", want.Name, i, err)
				}
				if diff := difference(g.frames(id), f.Frames, g.vm.Release.AtLeast(3, 4)); diff != "" {
					t.Errorf("thread %q: fiber %d:\n%s", want.Name, i, diff)
				}
				compared++
			}
		}
		if compared == 0 && r.AtLeast(3, 0) {
			t.Error("no fiber was compared")
		}
	})
}

func compareThreads(t *testing.T, g *realTarget, truth rubytest.Truth, values bool) {
	t.Helper()
	found := make(map[string]bool)
	frames := 0
	for _, thread := range g.threads(t) {
		name := g.name(t, thread)
		want, ok := truth.Thread(name)
		if !ok {
			continue
		}
		found[name] = true
		raw, ok := g.threadStack(t, thread, values)
		if !ok {
			t.Errorf("thread %q has no stack", name)
			continue
		}
		id, info, err := g.dec.Decode(&raw)
		if err != nil {
			t.Errorf("thread %q: %v", name, err)
			continue
		}
		if info.FailedNames != 0 {
			t.Errorf("thread %q: %d frames lack a name: %v", name, info.FailedNames, g.dec.LastNameError())
		}
		got := g.frames(id)
		frames += len(got)
		if diff := difference(got, want.Frames, g.vm.Release.AtLeast(3, 4)); diff != "" {
			t.Errorf("thread %q:\n%s", name, diff)
		}
	}
	for _, w := range truth.Threads {
		if !found[w.Name] {
			t.Errorf("thread %q was not found", w.Name)
		}
	}
	t.Logf("Ruby %s, values %t: %d threads, %d frames", g.vm.Version, values, len(found), frames)
}

// difference says where two stacks differ. The result is empty if they are equal.
func difference(got []sampler.Frame, want []rubytest.TruthFrame, labels bool) string {
	var s strings.Builder
	for i := range max(len(got), len(want)) {
		g, w := "(none)", "(none)"
		if i < len(got) {
			f := got[i]
			g = fmt.Sprintf("%s:%d (%s)", f.Path, f.Line, f.AbsolutePath)
			if labels {
				g += " " + f.Label + " / " + f.Name
			}
			if f.Uncertain {
				g += " uncertain"
			}
		}
		if i < len(want) {
			f := want[i]
			w = fmt.Sprintf("%s:%d (%s)", text(f.Path), f.Line, text(f.AbsolutePath))
			if labels {
				w += " " + f.Label + " / " + f.BaseLabel
			}
		}
		if g != w {
			fmt.Fprintf(&s, "  frame %d of %d/%d\n    got  %s\n    want %s\n", i, len(got), len(want), g, w)
			if s.Len() > 2000 {
				s.WriteString("  …\n")
				break
			}
		}
	}
	return s.String()
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
