package ruby

import (
	_ "embed"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
)

//go:embed testdata/calls.rb
var callsProgram string

// TestKindsOfCalls decodes stacks with every kind of call as if they were racing. All frames must seem to be called by
// the frames outward of them. Only real processes show which instructions and method entries a release uses for them.
func TestKindsOfCalls(t *testing.T) {
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, callsProgram, rubytest.Options{})
		p.Expect(t, "ready 91 of 91")
		rd := openReader(t, p.PID)
		rd.stacks.decode = func(raw *code.Stack) (sampler.StackID, code.Info, error) {
			raw.Racing = true
			return rd.dec.Decode(raw)
		}
		var s sampler.Sample
		if err := rd.Read(sampler.StackTick, &s); err != nil {
			t.Fatal(err)
		}
		named := 0
		for i := range s.Threads {
			th := &s.Threads[i]
			info, _ := rd.dict.Thread(th.ID)
			var frames []string
			for _, id := range rd.dict.Frames(th.Stack, nil) {
				frames = append(frames, rd.dict.Frame(id).Label)
			}
			if th.Quality != sampler.StackFresh {
				t.Errorf("thread %q has only %v (quality %b)", info.Name, frames, th.Quality)
			}
			if info.Name != "" {
				named++
			}
		}
		if named < 91 {
			t.Errorf("%d threads with a name, of 91", named)
		}
	})
}
