package ruby

import (
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// TestMoves: if a thread has had no CPU since ddtop read its stack, ddtop does not read the stack again, and reports it
// as fresh. ddtop reads the stack again if the thread has had a CPU, or after stillNS.
func TestMoves(t *testing.T) {
	still := 0
	for _, g := range loadTicks(t) {
		t.Run(g.Version, func(t *testing.T) {
			now := int64(1e9)
			r, err := g.open(g.Pages)
			if err != nil {
				t.Fatal(err)
			}
			r.now = func() int64 { now += 1000; return now }
			var s, want sampler.Sample
			read := func() (stacks map[*thread]bool) {
				t.Helper()
				if err := r.Read(sampler.StackTick, &s); err != nil {
					t.Fatal(err)
				}
				stacks = make(map[*thread]bool)
				for _, x := range r.list.order {
					if x.stack.plan.at >= 0 {
						stacks[x] = true
					}
				}
				return stacks
			}
			read()
			read()
			want.CopyFrom(&s)
			moved := make(map[int32]int64)
			r.SetMoves(func(tid int32) int64 { return moved[tid] })
			stacks := read()
			for i := range s.Threads {
				a, b := &s.Threads[i], &want.Threads[i]
				if a.Stack != b.Stack || a.Quality != b.Quality || a.Blocked != b.Blocked || a.Serving != b.Serving {
					t.Errorf("%+v, and was %+v", a, b)
				}
			}
			for _, x := range r.list.order {
				if x.tid == 0 || x.owns() || x.stack.id == 0 || x.stack.quality != sampler.StackFresh {
					continue
				}
				still++
				if stacks[x] {
					t.Errorf("the stack of thread %d was read, which has not moved", x.id)
				}
				moved[x.tid] = now
				if !read()[x] {
					t.Errorf("the stack of thread %d was not read, which has moved", x.id)
				}
				if read()[x] {
					t.Errorf("the stack of thread %d was read again", x.id)
				}
				now += stillNS
				if !read()[x] {
					t.Errorf("the stack of thread %d is believed for ever", x.id)
				}
				break
			}
		})
	}
	if still == 0 {
		t.Error("no thread stood still")
	}
}

// TestLookAt: after LookAt for a thread, the next tick reads the thread's stack, even if it is a tick that reads only
// locks.
func TestLookAt(t *testing.T) {
	looked := 0
	for _, g := range loadTicks(t) {
		r, err := g.open(g.Pages)
		if err != nil {
			t.Fatal(err)
		}
		var s sampler.Sample
		read := func(depth sampler.Depth) {
			t.Helper()
			if err := r.Read(depth, &s); err != nil {
				t.Fatal(err)
			}
		}
		read(sampler.StackTick)
		read(sampler.LockTick)
		for i := range s.Threads {
			x := s.Threads[i]
			if x.TID == 0 || x.Quality != 0 || x.Stack == 0 {
				continue
			}
			looked++
			r.LookAt([]Entered{{TID: x.TID, FromNS: 1, ByNS: 2}})
			if read(sampler.LockTick); s.Threads[i].Quality&sampler.StackFresh == 0 {
				t.Errorf("%s: the stack of thread %d was not read", g.Version, x.ID)
			}
			if read(sampler.LockTick); s.Threads[i].Quality&sampler.StackFresh != 0 {
				t.Errorf("%s: the stack of thread %d was read again", g.Version, x.ID)
			}
			break
		}
	}
	if looked == 0 {
		t.Error("no thread was to be looked at")
	}
}
