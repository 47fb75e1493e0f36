package live_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// open attaches to a test program.
func open(t testing.TB, pid int, opts live.Options) *live.Source {
	t.Helper()
	s, err := live.Open(context.Background(), pid, opts)
	if err != nil {
		t.Fatalf("attaching to process %d: %v", pid, err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func once(t testing.TB, s *live.Source) *sampler.Sample {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), rubytest.Timeout)
	defer cancel()
	sample, err := s.Once(ctx)
	if err != nil {
		t.Fatalf("one sample of process %d: %v", s.Process().PID, err)
	}
	return sample
}

func frames(d *sampler.Dictionary, id sampler.StackID) []sampler.Frame {
	var out []sampler.Frame
	for _, f := range d.Frames(id, nil) {
		out = append(out, d.Frame(f))
	}
	return out
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// compareFrames describes the first difference between a stack and what Ruby reports. The parameter labels is true if
// this Ruby prints labels with the class. In this case labels are compared, too.
func compareFrames(got []sampler.Frame, want []rubytest.TruthFrame, labels bool) string {
	if len(got) != len(want) {
		var b strings.Builder
		for i := 0; i < max(len(got), len(want)); i++ {
			g, w := "-", "-"
			if i < len(got) {
				g = fmt.Sprintf("%s:%d %s", got[i].Path, got[i].Line, got[i].Label)
			}
			if i < len(want) {
				w = fmt.Sprintf("%s:%d %s", text(want[i].Path), want[i].Line, want[i].Label)
			}
			fmt.Fprintf(&b, "\n   %-50s | %s", g, w)
		}
		return fmt.Sprintf("%d frames, Ruby says %d%s", len(got), len(want), b.String())
	}
	for i, g := range got {
		w := want[i]
		if g.Path != text(w.Path) || g.AbsolutePath != text(w.AbsolutePath) || g.Line != w.Line {
			return fmt.Sprintf("frame %d is %s (%s) line %d, Ruby says %s (%s) line %d", i, g.Path, g.AbsolutePath, g.Line,
				text(w.Path), text(w.AbsolutePath), w.Line)
		}
		if labels && (g.Label != w.Label || g.Name != w.BaseLabel) {
			return fmt.Sprintf("frame %d is %q (%q), Ruby says %q (%q)", i, g.Label, g.Name, w.Label, w.BaseLabel)
		}
		if g.Uncertain {
			return fmt.Sprintf("frame %d of a parked thread is marked as uncertain: %+v", i, g)
		}
	}
	return ""
}

// TestParkedProgram compares ddtop's stack of each of about 250 parked threads with the stack that Ruby itself reports.
func TestParkedProgram(t *testing.T) {
	rubytest.EachRelease(t, func(t *testing.T, r rubytest.Ruby) {
		p, truth := r.StartParked(t, rubytest.Options{})
		compareTruth(t, p, truth)
	})
}

// TestCutStack compares cut stacks with complete stacks. A cut stack lacks its middle, because the number of frames is
// limited. One stack has only Ruby frames. The other alternates between Ruby frames, blocks and C functions. Limits of
// different size cut it at each kind of frame.
func TestCutStack(t *testing.T) {
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, `def down(n); n == 0 ? sleep : down(n - 1); end
def turns(n)
  return sleep if n == 0
  [n].each_slice(2) { [n].min_by { turns(n - 1); 0 } }
end
threads = %w[down turns].map { |m| Thread.new { Thread.current.name = m; send(m, m == "down" ? 3000 : 200) } }
sleep 0.01 until threads.all? { |t| t.status == "sleep" }
puts "ready"; $stdout.flush; $stdin.gets`, rubytest.Options{Env: []string{"RUBY_THREAD_VM_STACK_SIZE=8388608"}})
		p.Expect(t, "ready")
		stack := func(name string, depth int) ([]sampler.Frame, sampler.Thread) {
			s := open(t, p.PID, live.Options{MaxDepth: depth})
			sample := once(t, s)
			for _, th := range sample.Threads {
				if info, _ := s.Dictionary().Thread(th.ID); info.Name == name {
					return frames(s.Dictionary(), th.Stack), th
				}
			}
			t.Fatalf("no thread named %s", name)
			return nil, sampler.Thread{}
		}
		for _, name := range []string{"down", "turns"} {
			whole, th := stack(name, 20000)
			if len(whole) < 1000 || th.Quality&sampler.StackTruncated != 0 {
				t.Fatalf("%s: %d frames at a limit of 20000, quality %b", name, len(whole), th.Quality)
			}
			limits := []int{500}
			if name == "turns" {
				// The inner part of a cut stack has three quarters of the limit. So these limits cut the stack once at
				// each kind of frame that repeats in it.
				limits = []int{400, 404, 408, 412, 416, 420, 424, 428, 432, 436}
			}
			for _, limit := range limits {
				cut, th := stack(name, limit)
				compareCut(t, fmt.Sprintf("%s, at most %d", name, limit), cut, th, whole, limit)
			}
		}
	})
}

// compareCut compares a stack with more than limit control frames, which was cut, with the complete stack. Its inner
// frames must be the first frames of the complete stack, and its outer frames the last.
func compareCut(t *testing.T, name string, cut []sampler.Frame, th sampler.Thread, whole []sampler.Frame, limit int) {
	t.Helper()
	if th.Quality&sampler.StackTruncated == 0 || len(cut) > limit || len(cut) < limit/2 {
		t.Errorf("%s: %d frames and %d omitted of %d; quality %b", name, len(cut), th.Omitted, len(whole), th.Quality)
		return
	}
	inner := 0
	for inner < len(cut) && cut[inner] == whole[inner] {
		inner++
	}
	for i := inner; i < len(cut); i++ {
		if want := whole[len(whole)-len(cut)+i]; cut[i] != want {
			t.Errorf("%s: frame %d of %d is %+v, the whole stack has %+v or %+v", name, i, len(cut), cut[i], whole[i], want)
			return
		}
	}
	// Omitted also counts control frames that Ruby shows in no backtrace. So it may be larger than the number of frames
	// that the cut stack lacks.
	if missing := len(whole) - len(cut); int(th.Omitted) < missing {
		t.Errorf("%s: %d frames omitted, %d are missing", name, th.Omitted, missing)
	}
	if strings.HasPrefix(name, "down") && int(th.Omitted)+len(cut) != len(whole) {
		t.Errorf("%s: %d frames and %d omitted of %d", name, len(cut), th.Omitted, len(whole))
	}
}

// TestDescription compares ddtop's description of the interpreter with Ruby's RUBY_DESCRIPTION. It starts Ruby without
// options and with --yjit.
func TestDescription(t *testing.T) {
	rubytest.EachRelease(t, func(t *testing.T, r rubytest.Ruby) {
		for _, args := range [][]string{nil, {"--yjit"}} {
			if args != nil && !r.AtLeast(3, 1) {
				continue // has no YJIT
			}
			p := r.Start(t, `puts RUBY_DESCRIPTION; $stdout.flush; $stdin.gets`, rubytest.Options{RubyArgs: args})
			said := p.Line(t)
			proc := open(t, p.PID, live.Options{}).Process()
			if proc.RubyDescription != said {
				t.Errorf("with %v: %q, Ruby says %q", args, proc.RubyDescription, said)
			}
			if want := strings.Contains(said, "+YJIT"); (proc.JIT == "yjit") != want {
				t.Errorf("with %v: JIT %q, Ruby says %q", args, proc.JIT, said)
			}
		}
	})
}
