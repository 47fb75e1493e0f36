package ruby

import (
	"flag"
	"fmt"
	"slices"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/memtest"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

var update = flag.Bool("update", false, "capture testdata/golden from real Rubies anew")

// golden is what was captured of a real process: enough to decode its stacks again, anywhere.
type golden struct {
	captured
	Stacks []goldenStack
}

// goldenStack is one stack and what it was decoded to while the process lived, held against Ruby's own word then.
type goldenStack struct {
	Thread           string
	End, CFP, Values attach.Address
	Frames, Used     []byte
	Want             []string
}

func (s *goldenStack) raw() RawStack {
	return RawStack{End: s.End, CFP: s.CFP, Frames: s.Frames, Values: s.Used, ValuesAt: s.Values}
}

// goldenThreads are the threads of the parked program that are captured: one of each kind of thing to read.
var goldenThreads = []string{
	"block in block", "alias with blocks", "define_method with block", "default keyword", "rescue in block",
	"nested rescue", "eval", "symbol to_proc", "splat and keywords", "interpolation",
}

// describe decodes a stack into lines of text.
func describe(d *Decoder, dict *sampler.Dictionary, raw *RawStack) ([]string, error) {
	id, info, err := d.Decode(raw)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, f := range dict.Frames(id, nil) {
		f := dict.Frame(f)
		out = append(out, fmt.Sprintf("%s | %s | %s:%d from %d | %s | c=%t uncertain=%t", f.Label, f.Name, f.Path, f.Line, f.FirstLine,
			f.AbsolutePath, f.C, f.Uncertain))
	}
	if info.Frames != len(out) || info.FailedNames != 0 {
		return out, fmt.Errorf("%d frames, %d of them without a name", info.Frames, info.FailedNames)
	}
	return out, nil
}

// TestGolden decodes what was captured of real processes on Debian's Rubies; with -update it captures them again.
func TestGolden(t *testing.T) {
	if *update {
		rubytest.Each(t, captureGolden)
	}
	goldens := loadGoldens(t)
	if len(goldens) < 4 {
		t.Errorf("%d captured processes only", len(goldens))
	}
	for _, g := range goldens {
		t.Run(g.Version, func(t *testing.T) {
			d, dict, err := g.decoder(g.pages)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range g.Stacks {
				raw := s.raw()
				got, err := describe(d, dict, &raw)
				if err != nil {
					t.Errorf("%s: %v", s.Thread, err)
				}
				if !slices.Equal(got, s.Want) {
					t.Errorf("%s: got\n%q\nwant\n%q", s.Thread, got, s.Want)
				}
			}
		})
	}
}

func loadGoldens(t testing.TB) []*golden { return loadCaptured[golden](t, "golden") }

func captureGolden(t *testing.T, r rubytest.Ruby) {
	p, truth := r.StartParked(t, rubytest.Options{})
	live := openTarget(t, p.PID)
	compareThreads(t, live, truth, true)
	if t.Failed() {
		return
	}
	g := &golden{captured: capturedOf(live)}
	capture := memtest.NewCapture(live.proc)
	d, dict, err := g.decoder(capture)
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range live.threads(t) {
		name := live.name(t, thread)
		raw, ok := live.threadStack(t, thread, true)
		if !ok || !slices.Contains(goldenThreads, name) {
			continue
		}
		want, err := describe(d, dict, &raw)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		g.Stacks = append(g.Stacks, goldenStack{name, raw.End, raw.CFP, raw.ValuesAt, raw.Frames, raw.Values, want})
	}
	if len(g.Stacks) != len(goldenThreads) {
		t.Fatalf("%d threads of %d", len(g.Stacks), len(goldenThreads))
	}
	writeCaptured(t, "golden", g.Version, g, capture)
}
