package code

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/internal/memtest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/places"
)

// golden is a captured process: its memory, and stacks with the result that decoding them must have.
type golden = memtest.Golden

// raw returns a stack in the form in which it was read.
func raw(s *memtest.GoldenStack) Stack {
	return Stack{End: s.End, CFP: s.CFP, Frames: s.Frames, Values: s.Used, ValuesAt: s.Values}
}

// targetOf returns the VM of a captured process, whose memory is mem.
func targetOf(p *memtest.Process, mem attach.Memory) (Target, error) {
	t := Target{Mem: mem, Code: new(Places), Objects: new(heap.Places), VM: p.VM, Symbols: p.Symbols}
	table, _, err := layout.For(p.Version, p.Machine, p.JmpBuf)
	if err != nil {
		return t, err
	}
	if t.Release, err = places.ParseRelease(p.Version); err != nil {
		return t, err
	}
	if err := places.Resolve(table, t.Release, t.Code, t.Objects); err != nil {
		return t, err
	}
	t.Code.Complete(t.Release)
	return t, t.Objects.Complete(t.Release)
}

// decoderOf returns a Decoder of a captured process, whose memory is mem.
func decoderOf(p *memtest.Process, mem attach.Memory) (*Decoder, *sampler.Dictionary, error) {
	t, err := targetOf(p, mem)
	dict := sampler.NewDictionary()
	return NewDecoder(t, dict), dict, err
}

// describe decodes a stack into lines of text.
func describe(d *Decoder, dict *sampler.Dictionary, stack *Stack) ([]string, error) {
	id, info, err := d.Decode(stack)
	if err != nil {
		return nil, err
	}
	out := memtest.Describe(dict, id)
	if info.Frames != len(out) || info.FailedNames != 0 {
		return out, fmt.Errorf("%d frames, %d of them without a name", info.Frames, info.FailedNames)
	}
	return out, nil
}

// TestGolden decodes stacks that were captured from real processes on Debian's Rubies. The result must be the same as
// when they were captured (TestCaptureGolden of package ruby).
func TestGolden(t *testing.T) {
	goldens := loadGoldens(t)
	if len(goldens) < 4 {
		t.Errorf("%d captured processes only", len(goldens))
	}
	for _, g := range goldens {
		t.Run(g.Version, func(t *testing.T) {
			d, dict, err := decoderOf(&g.Process, g.Pages)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range g.Stacks {
				stack := raw(&s)
				got, err := describe(d, dict, &stack)
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

func loadGoldens(t testing.TB) []*golden { return memtest.Load[golden](t, "testdata/golden") }
