package ruby

// way is how a stack was read, and what proved it right.
type way int

const (
	// waySeen means that the execution context was new. wayGrown means that the stack had more inner frames than were
	// read. Both need another reading, whose way is counted too.
	waySeen way = iota
	wayGrown
	// wayOnce means one copy that equals the kept stack. wayResting means one copy that equals the stack with which
	// the thread waited before. waySame means several copies, of which the first equals the kept stack.
	wayOnce
	wayResting
	waySame
	// wayTwice and wayMore mean that two copies, or more than two, agree.
	wayTwice
	wayMore
	// wayDeep and wayCut mean copies of a stackExact that agree. wayDeep has the whole stack, wayCut lacks the middle.
	wayDeep
	wayCut
	// wayPart means that only the outer frames are kept, because the copies agree only on these.
	wayPart
	// wayDoubt means that only the outer frames are kept, because they do not call the other ones. wayBelieved means
	// that they do not seem to call them, but too many copies in a row agree for that.
	wayDoubt
	wayBelieved
	// waySuffix counts stacks of wayTwice to wayPart whose outer frames were known and not decoded again.
	waySuffix
	// wayFiber means two copies of a fiber that does not run.
	wayFiber
	ways
)

func (w way) String() string {
	return [ways]string{"seen", "grown", "once", "resting", "same", "twice", "more", "deep", "cut", "part", "doubt", "believed", "suffix", "fiber"}[w]
}

// sameWay returns the way of a stack that equals the kept one. otherWay returns the way of a stack whose copies agree.
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
