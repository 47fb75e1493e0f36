package demosource

import (
	"time"

	"github.com/ddtop/ddtop/sampler"
)

// gvlState returns whether a thread holds the GVL now, waits for it, or does neither.
func (s *Source) gvlState(t *thread) sampler.GVLState {
	switch {
	case t == s.owner:
		return sampler.GVLHeld
	case t.waiting:
		return sampler.GVLQueued
	}
	return sampler.GVLReleased
}

// change adds the latest changes of the GVL to the sample. In the simulation they happen within its last step, some
// microseconds apart.
func (s *Source) change(first bool) {
	c := &s.sample.Changes
	*c = sampler.Changes{FromNS: s.now - step, ToNS: s.now, Fresh: first, List: c.List[:0]}
	at := c.FromNS
	add := func(t *thread, g sampler.GVLState, noCPU int64) {
		c.List = append(c.List, sampler.Change{AtNS: at, Thread: t.id, TID: 4241 + int32(t.id), State: g, NoCPUNS: noCPU})
	}
	after := func(from, to int) { at += int64(from+s.changes.IntN(to-from+1)) * int64(time.Microsecond) }
	if first {
		for _, t := range s.threads {
			t.gvl = s.gvlState(t)
			add(t, t.gvl, 0)
		}
		return
	}
	after(50, 500)
	for _, t := range s.threads { // waits begin before the holder gives the GVL away
		if t.gvl == sampler.GVLReleased && s.gvlState(t) != sampler.GVLReleased {
			after(1, 12)
			add(t, sampler.GVLQueued, 0)
		}
	}
	for _, t := range s.threads {
		if t.gvl == sampler.GVLHeld && t != s.owner {
			after(1, 60)
			add(t, s.gvlState(t), 0)
		}
	}
	if o := s.owner; o != nil && o.gvl != sampler.GVLHeld {
		after(1, 3)
		add(o, sampler.GVLChosen, 0)
		from := at
		after(5, 40)
		add(o, sampler.GVLHeld, (at-from)/3)
	}
	for _, t := range s.threads {
		t.gvl = s.gvlState(t)
	}
}
