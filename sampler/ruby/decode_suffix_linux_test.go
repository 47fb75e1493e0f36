package ruby

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
)

//go:embed testdata/suffix.rb
var suffixProgram string

// suffixPrograms are arguments of the script suffix.rb. Each is a list of programs that run at the same time, in
// threads of one process.
var suffixPrograms = []string{
	"same_receiver redefine", "same_code naming compact", "fibers births waves", "rescues tails refined compact",
	"escapes specials compact",
}

// suffixStacks is how many stacks of each process are compared.
const suffixStacks = 1500

// TestSuffix: to save time, ddtop decodes only the frames that differ from a thread's last stack. The result must be
// the same as if it decoded all frames.
func TestSuffix(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		for _, v := range r.Variants(t) {
			if v.Name == "mn" {
				continue
			}
			for _, names := range suffixPrograms {
				t.Run(v.Name+" "+names, func(t *testing.T) {
					p := r.Start(t, suffixProgram, v.Apply(rubytest.Options{Args: strings.Fields(names)}))
					p.Expect(t, "ready")
					rd := openReader(t, p.PID)
					compareSuffix(t, rd)
				})
			}
		}
	})
}

// compareSuffix reads stacks until it has enough for which ddtop decoded only a part of the frames. It decodes each of
// these stacks again as a whole, and compares the results.
func compareSuffix(t *testing.T, rd *Reader) {
	t.Helper()
	compared, frames, reused, raced, wrong := 0, 0, 0, 0, 0
	labels := func(id sampler.StackID) []string {
		var out []string
		for _, f := range rd.dict.Frames(id, nil) {
			frame := rd.dict.Frame(f)
			out = append(out, fmt.Sprintf("%s:%d %s", frame.Path, frame.Line, frame.Label))
		}
		return out
	}
	rd.stacks.decode = func(raw *code.Stack) (sampler.StackID, code.Info, error) {
		whole := func() (sampler.StackID, code.Info, error) {
			all := *raw
			all.Kept = nil
			return rd.dec.Decode(&all)
		}
		before, _, errBefore := whole()
		id, info, err := rd.dec.Decode(raw)
		if err != nil || info.Reused == 0 {
			return id, info, err
		}
		compared++
		frames, reused = frames+len(raw.Frames)/rd.o.Code.FrameSize, reused+info.Reused
		want, wantInfo, err := whole()
		if err == nil && wantInfo.Frames == info.Frames && wantInfo.FailedNames == info.FailedNames {
			if want == id || raw.Live() && rd.dec.JITOn() && sameButTop(rd.dict, id, want) {
				return id, info, nil
			}
		}
		// Some differences are allowed. The frames refer to code and names that are not in the copies, and the running
		// program may have changed them between the decodings. While Ruby compacts its heap, a name cannot be read for
		// a moment. The innermost frame of a running thread can be half written for a moment, so one of the three
		// decodings may leave it out.
		half := (raw.Running || raw.Partial) && (info.UncertainTop && topLost(rd.dict, id, want) || wantInfo.UncertainTop && topLost(rd.dict, want, id))
		if err != nil || errBefore != nil || before != want || wantInfo.FailedNames != info.FailedNames || half {
			raced++
			return id, info, nil
		}
		if wrong++; wrong < 5 {
			t.Errorf("%d of %d frames taken over (%+v, %+v):\n  %q\nnot\n  %q", info.Reused, len(raw.Frames)/rd.o.Code.FrameSize,
				info, wantInfo, labels(id), labels(want))
		}
		return id, info, nil
	}
	var s sampler.Sample
	for began := time.Now(); compared < suffixStacks; {
		if err := rd.Read(sampler.StackTick, &s); err != nil && time.Since(began) > raceTime {
			t.Fatal(err)
		}
		if time.Since(began) > raceTime {
			rubytest.TooSeldomNow(t, "only %d stacks in %v", compared, raceTime)
		}
	}
	t.Logf("%d stacks, %d of %d frames taken over, %d raced, %d wrong", compared, reused, frames, raced, wrong)
}

// topLost reports whether stack a equals stack b without b's innermost frame.
func topLost(dict *sampler.Dictionary, a, b sampler.StackID) bool {
	one, two := dict.Frames(a, nil), dict.Frames(b, nil)
	return len(two) > 0 && slices.Equal(one, two[1:])
}

// sameButTop reports whether two stacks differ only in the innermost frame's line, or in whether this line is certain.
// Such a difference is allowed. Each decoding checks whether a JIT has compiled the frame's code, and the result can
// change at any moment.
func sameButTop(dict *sampler.Dictionary, a, b sampler.StackID) bool {
	one, two := dict.Frames(a, nil), dict.Frames(b, nil)
	if len(one) == 0 || len(two) == 0 || !slices.Equal(one[1:], two[1:]) {
		return false
	}
	f, g := dict.Frame(one[0]), dict.Frame(two[0])
	f.Line, f.Uncertain = g.Line, g.Uncertain
	return f == g
}
