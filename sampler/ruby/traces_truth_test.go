package ruby

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/trace"
)

//go:embed testdata/traces.rb
var tracesProgram string

// toldSpan is what Ruby itself reports about the active span of a thread.
type toldSpan struct{ ID, Root, Endpoint, Kind, Trace string }

func (s toldSpan) String() string {
	return s.ID + " of " + s.Root + " of " + s.Trace + ", " + s.Kind + " " + strconv.Quote(s.Endpoint)
}

func spanSaid(s trace.Span) toldSpan {
	number := func(n uint64) string { return strconv.FormatUint(n, 10) }
	id := ""
	if s.Trace != ([16]byte{}) {
		id = fmt.Sprintf("%x", s.Trace)
	}
	return toldSpan{number(s.ID), number(s.Root), s.Endpoint, s.Kind.String(), id}
}

// finder returns a Finder that has searched a process for its tracers.
func (g *realTarget) finder(t testing.TB, pid int) *trace.Finder {
	t.Helper()
	symbol, ok := g.mod.Exported("rb_cObject")
	if !ok {
		t.Fatal("no rb_cObject")
	}
	f := trace.NewFinder(g.proc, g.dec.Objects, uint64(g.word(t, symbol.Addr)), pid)
	if _, err := f.Refresh(0); err != nil {
		t.Fatal(err)
	}
	return f
}

func (g *realTarget) ec(t testing.TB, thread attach.Address) attach.Address {
	t.Helper()
	return g.word(t, thread+g.off(t, "rb_thread_struct.ec"))
}

// planned reads the ranges of memory that a State wants to read, as a tick does.
func (g *realTarget) planned(t testing.TB, s *trace.State) {
	t.Helper()
	if _, err := g.proc.ReadBatch(s.Plan(nil)); err != nil {
		t.Fatal(err)
	}
}

// TestActiveSpans: for waiting threads, ddtop finds the same active spans as Ruby reports, for two tracers and in many
// situations. It also does so after collections and a compaction, after a fork, and with code that a JIT has compiled.
func TestActiveSpans(t *testing.T) {
	compared := 0
	compare := func(t *testing.T, g *realTarget, f *trace.Finder, states map[string]*trace.State, truth map[string]toldSpan) {
		t.Helper()
		found := 0
		for _, thread := range g.threads(t) {
			name := g.name(t, thread)
			want, ok := truth[name]
			if !ok {
				continue
			}
			if want == (toldSpan{}) || want.ID == "" {
				want = toldSpan{"0", "0", "", "none", ""}
			}
			found++
			s := states[name]
			if s == nil {
				s = new(trace.State)
				states[name] = s
			}
			look := func(how string) {
				calls, err := f.Look(s, g.ec(t, thread))
				if got := spanSaid(s.Span()); err != nil || got != want {
					t.Errorf("%s, %s: it is %v, Ruby says %v: %v", name, how, got, want, err)
				}
				if how == "planned" && calls > 0 && want.ID != "0" {
					t.Errorf("%s: %d calls for what had not changed", name, calls)
				}
				compared++
			}
			look("looked")
			g.planned(t, s)
			look("planned")
			look("looked again")
		}
		if found != len(truth) {
			t.Errorf("%d of %d threads", found, len(truth))
		}
	}
	sampled := func(t *testing.T, rd *Reader, truth map[string]toldSpan) {
		t.Helper()
		var s sampler.Sample
		for whole := 0; whole < 2; {
			if err := rd.Read(sampler.StackTick, &s); err != nil {
				t.Fatal(err)
			}
			if rd.Cut() {
				continue // the tick ran out of time; the next one reads what is missing
			}
			whole++
			for i := range s.Threads {
				th := &s.Threads[i]
				info, _ := rd.dict.Thread(th.ID)
				want, ok := truth[info.Name]
				if !ok || want.ID == "" {
					want = toldSpan{"0", "0", "", "none", ""}
				}
				w := rd.dict.Work(th.Serving.Work)
				got := spanSaid(trace.Span{ID: th.Serving.Span, Root: th.Serving.RootSpan, Trace: th.Serving.Trace, Endpoint: w.Endpoint, Kind: w.Kind})
				if want.Endpoint == "GET /o/?" {
					want.Endpoint = "GET /o/" // the name of a path does not contain its query string
				}
				if got != want || (w.Number != 0) != (w.Kind != sampler.WorkNone) {
					t.Errorf("%s: the sample says %v, Ruby says %v", info.Name, got, want)
				}
			}
		}
	}
	run := func(t *testing.T, r rubytest.Ruby, o rubytest.Options, mode string) {
		o.Args = []string{mode}
		p := r.Start(t, tracesProgram, o)
		var truth map[string]toldSpan
		p.JSON(t, &truth)
		g := openTarget(t, p.PID)
		f := g.finder(t, p.PID)
		states := make(map[string]*trace.State)
		compare(t, g, f, states, truth)
		sampled(t, openReader(t, p.PID), truth)
		for i, command := range []string{"gc", "compact"} {
			p.Send(t, command)
			truth = nil
			p.JSON(t, &truth)
			n := uint64(i + 1)
			if err := g.dec.Revalidate(int64(n), sampler.GC{Valid: true, Count: n, MajorCount: n}); err != nil {
				t.Fatal(err)
			}
			compare(t, g, f, states, truth)
		}
	}
	forked := func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, tracesProgram, rubytest.Options{Args: []string{"configured"}})
		var truth map[string]toldSpan
		p.JSON(t, &truth)
		p.Send(t, "fork")
		child, err := strconv.Atoi(strings.TrimSpace(p.Line(t)))
		if err != nil {
			t.Fatal(err)
		}
		for pid, want := range map[int]uint64{p.PID: 700, child: 0} {
			g := openTarget(t, pid)
			f := g.finder(t, pid)
			var s trace.State
			for _, thread := range g.threads(t) {
				if name := g.name(t, thread); name != "" && name != "child" {
					continue
				}
				if _, err := f.Look(&s, g.ec(t, thread)); err != nil || s.Span().ID != want {
					t.Errorf("the main thread of process %d is in %+v, not in %d: %v", pid, s.Span(), want, err)
				}
			}
		}
	}
	rubytest.EachRelease(t, func(t *testing.T, r rubytest.Ruby) {
		for _, mode := range []string{"configured", "unconfigured", "otel", "none"} {
			t.Run(mode, func(t *testing.T) { run(t, r, rubytest.Options{}, mode) })
		}
		t.Run("fork", func(t *testing.T) { forked(t, r) })
		for _, jit := range []string{"yjit", "zjit"} {
			if r.HasJIT(t, jit) {
				t.Run(jit, func(t *testing.T) {
					run(t, r, rubytest.Options{RubyArgs: []string{"--" + jit, "--" + jit + "-call-threshold=1"}}, "configured")
				})
			}
		}
		rubytest.Report(t, "%s: %d active spans as Ruby says", r, compared)
	})
}
