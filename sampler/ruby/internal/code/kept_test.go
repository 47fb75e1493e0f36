package code

import (
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
)

// inward returns the stack as it was before its n innermost frames were called.
func inward(s *Stack, n, frameSize int) Stack {
	out := *s
	out.Frames, out.CFP = s.Frames[n*frameSize:], s.CFP+attach.Address(n*frameSize)
	return out
}

// TestKept decodes stacks with the results kept from the thread's last stack. The result must be the same as without
// them. The test goes from each depth of a captured stack to each other depth, as if the thread had called or returned.
func TestKept(t *testing.T) {
	for _, g := range loadGoldens(t) {
		t.Run(g.Version, func(t *testing.T) {
			d, _, err := decoderOf(&g.Process, g.Pages)
			if err != nil {
				t.Fatal(err)
			}
			fs := d.o.FrameSize
			decode := func(s *Stack) (sampler.StackID, Info) {
				t.Helper()
				id, info, err := d.Decode(s)
				if err != nil {
					t.Fatal(err)
				}
				return id, info
			}
			reused := 0
			for i := range g.Stacks {
				all := raw(&g.Stacks[i])
				all.EC = 8
				n := len(all.Frames)/fs - 1
				whole := make([]sampler.StackID, n)
				for k := range whole {
					s := inward(&all, k, fs)
					whole[k], _ = decode(&s)
				}
				for from := range n {
					for to := range n {
						var kept Kept
						first, second := inward(&all, from, fs), inward(&all, to, fs)
						first.Kept, second.Kept = &kept, &kept
						decode(&first)
						id, info := decode(&second)
						if id != whole[to] {
							t.Fatalf("%s: %d frames after %d, %d of them kept: another stack than alone",
								g.Stacks[i].Thread, n-to, n-from, info.Reused)
						}
						// The innermost frame of the first stack is not kept, and the innermost frame of the second one
						// is not reused. If the release hides the caller of a rescue, the frame that it may hide is not
						// reused, either.
						if want := n - max(from, to) - 1; info.Reused > want {
							t.Fatalf("%s: %d of %d frames kept", g.Stacks[i].Thread, info.Reused, want)
						}
						reused += info.Reused
					}
				}
			}
			if reused == 0 {
				t.Error("nothing was taken over")
			}
		})
	}
}

// TestKeptIsForgotten changes more than the inner frames of a stack. The Decoder must then reuse no kept frames.
func TestKeptIsForgotten(t *testing.T) {
	goldens := loadGoldens(t)
	g := goldens[len(goldens)-1]
	d, dict, err := decoderOf(&g.Process, g.Pages)
	if err != nil {
		t.Fatal(err)
	}
	now, gc := int64(1e12), sampler.GC{Valid: true, Count: 1, MajorCount: 1}
	revalidate := func() {
		t.Helper()
		now += 1e6
		if err := d.Revalidate(now, gc); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name   string
		change func(s *Stack)
		keeps  bool
	}{
		{"nothing", func(*Stack) {}, true},
		{"another execution context", func(s *Stack) { s.EC = 16 }, false},
		{"another stack", func(s *Stack) { s.End += 8; s.CFP += 8 }, false},
		{"the middle is left out", func(s *Stack) { s.Cut = 1 }, false},
		{"an outer frame", func(s *Stack) { s.Frames[len(s.Frames)-2*d.o.FrameSize+FrameSelf]++ }, false},
		{"an environment", func(s *Stack) { s.Values[len(s.Values)/2] = 0 }, true},
		{"no values", func(s *Stack) { s.Values = nil }, false},
		{"a collection", func(*Stack) { gc.Count++; revalidate() }, false},
		{"a generation of names", func(*Stack) {
			k := sampler.NewKeeper(dict, 1e9)
			k.Feed(&sampler.Sample{}, false)
			k.Feed(&sampler.Sample{TimeNS: 31e9}, false)
		}, false},
		{"everything was forgotten", func(*Stack) { d.forgetAll() }, false},
		{"code was dropped", func(*Stack) {
			for _, q := range d.iseqs {
				q.drop(&d.loader)
				break
			}
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			revalidate()
			var kept Kept
			s := raw(&g.Stacks[0])
			s.EC, s.Kept = 8, &kept
			s.Frames, s.Values = append([]byte(nil), s.Frames...), append([]byte(nil), s.Values...)
			if _, _, err := d.Decode(&s); err != nil {
				t.Fatal(err)
			}
			c.change(&s)
			_, info, _ := d.Decode(&s)
			if c.keeps != (info.Reused > 0) {
				t.Errorf("%d frames are taken over", info.Reused)
			}
		})
	}
}

// TestKeptRules cuts an invented stack in two at each frame. It keeps the results of the outer part, and decodes the
// inner part on top of them. The result must be the same as for the whole stack.
func TestKeptRules(t *testing.T) {
	for _, release := range []string{"2.7.8", "3.3.11", "3.4.9", "4.0.2"} {
		for _, frames := range [][]string{
			{"rescue a", "ruby a", "rescue b", "rescue b", "ruby b", "C each", "ruby c"},
			{"C x", "ensure a", "C y", "ruby a", "internal z", "C w", "internal v", "ruby b", "skip", "ruby d"},
			{"ruby block", "internal loop", "C x", "C y", "internal loop", "ruby a", "trace t", "rescue q", "trace s", "ruby e"},
		} {
			d := ruleDecoder(release)
			d.put(frames...)
			all, want := d.work, outerFrames{old: true, final: true}
			d.work = append([]frameWork(nil), all...)
			if err := d.internFrames(&Stack{}, &want); err != nil {
				t.Fatal(err)
			}
			for inner := 1; inner < len(all); inner++ {
				// Decode only the outer part, as if the inner part had not been called yet. Later, the innermost frame
				// with code and the frames inward of it are decoded again.
				first := outerFrames{old: true, final: true}
				d.work = append([]frameWork(nil), all[inner:]...)
				if err := d.internFrames(&Stack{}, &first); err != nil {
					t.Fatal(err)
				}
				k := Kept{}
				for i := len(d.work) - 1; i >= 0; i-- {
					k.decoded = append(k.decoded, keptFrame{outerFrames: d.made[i], work: d.work[i]})
				}
				meant := d.meant(&k, len(k.decoded))
				got := k.outer(meant)
				d.work = append([]frameWork(nil), all[:len(all)-meant]...)
				for i := inner; i < len(d.work); i++ {
					d.work[i] = k.decoded[len(all)-1-i].work
				}
				if err := d.internFrames(&Stack{}, &got); err != nil {
					t.Fatal(err)
				}
				if got.stack != want.stack || got.shown != want.shown {
					t.Errorf("%s, %q: the inner %d on top of the others, %d of which are kept, are %d frames, not %d",
						release, frames, inner, meant, got.shown, want.shown)
				}
			}
		}
	}
}
