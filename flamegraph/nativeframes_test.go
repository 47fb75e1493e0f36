package flamegraph

import (
	"math/rand/v2"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// TestNativeWeights: if a thread stays in known C functions, they get its time up to the last proof. A proof is a
// reading of the thread's counters that shows that the thread has not left these functions. Later time goes to the Ruby
// frame alone. So does time in a state that does not fit the C functions.
func TestNativeWeights(t *testing.T) {
	const ruby, native = sampler.StackID(7), sampler.StackID(9)
	const ms = int64(1e6)
	type step struct {
		atMS, cpuMS, turns int64 // cpuMS is when the counters were read
		native             sampler.StackID
		state              gvl.State
	}
	for name, c := range map[string]struct {
		steps        []step
		plain, found int64 // the expected time of the Ruby frame alone, and with its C functions, in ms
	}{
		"proven to the end": {[]step{{0, 0, 5, 0, gvl.IO}, {10, 10, 5, native, gvl.IO}, {20, 10, 5, native, gvl.IO},
			{30, 31, 5, native, gvl.IO}}, 10, 20},
		"it moved": {[]step{{0, 0, 5, native, gvl.IO}, {10, 10, 5, native, gvl.IO}, {20, 10, 5, native, gvl.IO},
			{30, 30, 6, 0, gvl.IO}}, 20, 10},
		"no proof of the last part": {[]step{{0, 0, 5, native, gvl.IO}, {10, 10, 5, native, gvl.IO},
			{20, 10, 5, native, gvl.IO}, {30, 10, 5, native, gvl.IO}}, 20, 10},
		"it rests":       {[]step{{0, 0, 5, native, gvl.Parked}, {10, 10, 5, native, gvl.Parked}}, 10, 0},
		"another stay":   {[]step{{0, 0, 5, native, gvl.IO}, {10, 10, 5, native, gvl.IO}, {20, 20, 8, native, gvl.IO}, {30, 30, 8, native, gvl.IO}}, 10, 20},
		"a lock of C":    {[]step{{0, 0, 5, native, gvl.Lock}, {10, 11, 5, native, gvl.Lock}}, 0, 10},
		"without the C":  {[]step{{0, 0, 5, 0, gvl.IO}, {10, 10, 5, 0, gvl.IO}}, 10, 0},
		"held and ended": {[]step{{0, 0, 5, native, gvl.IO}, {10, 0, 5, native, gvl.IO}}, 10, 0},
	} {
		r, f := everything(t)
		for _, s := range c.steps {
			f.Feed(&sampler.Sample{TimeNS: 1e9 + s.atMS*ms, Depth: sampler.StackTick, Threads: []sampler.Thread{{ID: 1,
				Stack: ruby, Native: s.native, Quality: sampler.StackFresh,
				Kernel: sampler.Kernel{CPUAtNS: 1e9 + s.cpuMS*ms, Turns: s.turns}}}}, seen(s.state))
		}
		f.Finish()
		var plain, found, samples int64
		for k, w := range weightsOf(r) {
			if samples += w.Samples; k.Stack == native {
				found += w.WallNS
			} else {
				plain += w.WallNS
			}
		}
		if plain != c.plain*ms || found != c.found*ms || samples != int64(len(c.steps)) {
			t.Errorf("%s: %d ms without, %d ms with C functions, %d samples; want %d, %d, %d", name, plain/ms, found/ms, samples,
				c.plain, c.found, len(c.steps))
		}
	}
}

// TestNativeWeightsConserve: a Ruby stack and the C functions below it together weigh as much as the Ruby stack weighs
// without them.
func TestNativeWeightsConserve(t *testing.T) {
	for seed := range uint64(rounds(60)) {
		rnd := rand.New(rand.NewPCG(seed, 44))
		with, f := everything(t)
		without, g := everything(t)
		now := int64(1e9)
		threads := make([]sampler.Thread, 3)
		for range 200 {
			now += rnd.Int64N(30e6)
			s := &sampler.Sample{TimeNS: now, Depth: sampler.StackTick}
			var states []gvl.State
			list := threads[:1+rnd.IntN(len(threads))]
			for i := range list {
				th := &list[i]
				if th.ID = sampler.ThreadID(i + 1); rnd.IntN(3) == 0 || th.Stack == 0 {
					th.Kernel.Turns += int64(rnd.IntN(2))
					th.Kernel.CPUAtNS = now + rnd.Int64N(1000)
					th.Stack, th.Native = sampler.StackID(1+rnd.IntN(2)), 0
				}
				if rnd.IntN(3) == 0 {
					th.Native = th.Stack + 10
				}
				th.Quality = sampler.StackFresh
				states = append(states, []gvl.State{gvl.IO, gvl.IO, gvl.Stalled, gvl.Running}[rnd.IntN(4)])
			}
			s.Threads = append(s.Threads, list...)
			if rnd.IntN(2) == 0 {
				s.Ractors = []sampler.Ractor{{ID: 1, OwnerStart: 1, OwnerEnd: 1}}
			}
			f.Feed(s.Clone(), seen(states...))
			for i := range s.Threads {
				s.Threads[i].Native = 0
			}
			g.Feed(s, seen(states...))
		}
		f.Finish()
		g.Finish()
		sum := make(map[Key]Weights)
		found := false
		for k, w := range weightsOf(with) {
			if k.Stack > 10 {
				k.Stack, found = k.Stack-10, true
			}
			sum[k] = sum[k].Plus(w)
		}
		want := weightsOf(without)
		for k, w := range sum {
			if want[k] != w {
				t.Errorf("seed %d: %+v has %+v, without C functions %+v", seed, k, w, want[k])
			}
		}
		if len(sum) != len(want) || !found {
			t.Errorf("seed %d: %d keys, want %d; with C functions: %v", seed, len(sum), len(want), found)
		}
	}
}
