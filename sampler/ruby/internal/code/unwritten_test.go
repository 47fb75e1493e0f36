package code

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// TestMethodNotWrittenYet has a running thread that has pushed a frame, but has not written the frame's method entry
// yet. If this is the innermost frame, Decode must leave it out. If the frame is further out, Decode must request
// another reading. At the last try, the frame must get the name of its code and count as failed.
func TestMethodNotWrittenYet(t *testing.T) {
	for _, g := range loadGoldens(t) {
		t.Run(g.Version, func(t *testing.T) {
			d, dict, err := decoderOf(&g.Process, g.Pages)
			if err != nil {
				t.Fatal(err)
			}
			tried := 0
			for _, s := range g.Stacks {
				stack := raw(&s)
				if _, _, err := d.Decode(&stack); err != nil {
					t.Fatal(err)
				}
				var own []int
				for i := range len(stack.Frames)/d.o.FrameSize - 1 {
					if ownMethod(d, &stack, i) {
						own = append(own, i)
					}
				}
				for _, i := range own {
					tried++
					skip := i * d.o.FrameSize
					top := stack
					top.Frames, top.CFP, top.Running = stack.Frames[skip:], stack.CFP+attach.Address(skip), true
					whole, _, err := d.Decode(&top)
					if err != nil {
						t.Fatal(err)
					}
					for _, before := range []uint64{0, 85, d.target.Objects.Nil, uint64(stack.End)} {
						what := fmt.Sprintf("%s, control frame %d, %#x in place of its method", s.Thread, i, before)
						torn := top
						torn.Values = slices.Clone(stack.Values)
						ep := attach.Address(view.U64(stack.Frames[skip+FrameEP:]))
						binary.LittleEndian.PutUint64(torn.Values[ep-envBelow-stack.ValuesAt:], before)
						id, info, err := d.Decode(&torn)
						if want := dict.Frames(whole, nil); err != nil || !info.UncertainTop || !slices.Equal(dict.Frames(id, nil), want[1:]) {
							t.Errorf("%s: %+v, %v; want the %d frames around it", what, info, err, len(want)-1)
						}
						if i == 0 {
							continue
						}
						torn.Frames, torn.CFP, torn.Again = stack.Frames, stack.CFP, true
						if _, _, err := d.Decode(&torn); !errors.Is(err, ErrTorn) {
							t.Errorf("%s, further out: %v; want another read", what, err)
						}
						torn.Again = false
						if _, info, err := d.Decode(&torn); err != nil || info.FailedNames == 0 {
							t.Errorf("%s, at the last read: %+v, %v; want a frame without its class", what, info, err)
						}
					}
				}
			}
			if tried < 5 {
				t.Errorf("only %d frames of methods tried", tried)
			}
		})
	}
}

// ownMethod reports whether a control frame of the stack that was decoded last is the frame of a Ruby method itself,
// not of a block. Its environment must be on the stack and name the method.
func ownMethod(d *Decoder, stack *Stack, i int) bool {
	w := d.work[i]
	if w.code == nil || w.code.typ != iseqMethod || w.method == nil {
		return false
	}
	ep := attach.Address(view.U64(stack.Frames[i*d.o.FrameSize+FrameEP:]))
	if !stack.holds(ep) {
		return false
	}
	e, err := d.envAt(stack, ep)
	return err == nil && e.me != 0 && e.flags&envLocal != 0 && e.flags&envEscaped == 0
}
