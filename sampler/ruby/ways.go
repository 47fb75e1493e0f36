package ruby

// way is the way in which a stack was read, with the proof that it is right.
type way int

const (
	// waySeen means that the execution context was new. wayGrown means that the stack had more inner frames than were
	// read. Both need another reading. The way of this other reading is counted too.
	waySeen way = iota
	wayGrown
	// wayOnce means one copy that equals the kept stack. wayResting means one copy that equals the stack with which
	// the thread waited before. waySame means several copies, of which the first equals the kept stack.
	wayOnce
	wayResting
	waySame
	// wayTwice means that two copies agree. wayMore means that more than two copies agree.
	wayTwice
	wayMore
	// wayDeep and wayCut mean that the copies of an exact reading (stackExact) agree. wayDeep is a whole stack, and the
	// stack of wayCut lacks its middle.
	wayDeep
	wayCut
	// wayPart means that only the outer frames are kept, because the copies differ in the inner frames.
	wayPart
	// wayDoubt means that only the outer frames are kept, because they do not seem to call the inner frames.
	// wayBelieved means that all frames are kept nevertheless, because many readings in a row agree.
	wayDoubt
	wayBelieved
	// waySuffix counts the stacks of wayTwice to wayPart whose outer frames were known, so that only the inner frames
	// were decoded.
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
