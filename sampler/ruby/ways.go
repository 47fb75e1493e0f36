package ruby

// way is how a stack came to be read, and on what it is believed.
type way int

const (
	// waySeen: an execution context was met of which nothing was kept; wayGrown: a stack reached further in than it was
	// read. Both ask for another reading, whose way counts too.
	waySeen way = iota
	wayGrown
	// wayOnce: one copy that equals what was kept; wayResting: what was kept of where the thread waited before;
	// waySame: the first of several copies.
	wayOnce
	wayResting
	waySame
	// wayTwice and wayMore: so many copies that agree.
	wayTwice
	wayMore
	// wayDeep and wayCut: copies that agree, of a stackExact, whole or without the middle.
	wayDeep
	wayCut
	// wayPart: only the outer frames are kept, those that the copies agree on.
	wayPart
	// waySuffix: of those above that are no stack known, whose outer frames were not decoded again.
	waySuffix
	// wayFiber: two copies of a fiber that does not run.
	wayFiber
	ways
)

func (w way) String() string {
	return [ways]string{"seen", "grown", "once", "resting", "same", "twice", "more", "deep", "cut", "part", "suffix", "fiber"}[w]
}

// sameWay is the way of a stack that equals the kept one, otherWay of one whose copies agree.
func (p *stackPlan) sameWay() way {
	switch {
	case p.kind == stackResting:
		return wayResting
	case p.copies == 1:
		return wayOnce
	}
	return waySame
}

func (p *stackPlan) otherWay() way {
	switch {
	case p.area.outer > 0:
		return wayCut
	case p.kind == stackExact:
		return wayDeep
	case p.copies > 2:
		return wayMore
	}
	return wayTwice
}
