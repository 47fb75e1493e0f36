package ruby

// way says how a stack was read, and so why ddtop trusts the result. For example, two copies were equal.
type way int

const (
	// waySeen means that the execution context was new. wayGrown means that the stack had more inner frames than were
	// read. In both cases ddtop reads the stack again, and counts the way of the second reading too.
	waySeen way = iota
	wayGrown
	// wayOnce means that a single copy was read, and that it equals the kept stack. wayResting means that a single copy
	// equals the stack on which the thread waited before. waySame means that several copies were read, of which the
	// first equals the kept stack.
	wayOnce
	wayResting
	waySame
	// wayTwice means that two copies were read, and are equal. wayMore means that more than two copies were read, and
	// are equal.
	wayTwice
	wayMore
	// wayDeep and wayCut mean that the copies of an exact reading (stackExact) are equal. With wayDeep it is a whole
	// stack, and with wayCut a stack without its middle.
	wayDeep
	wayCut
	// wayPart means that only the outer frames are kept, because the copies differ in the inner frames.
	wayPart
	// wayDoubt means that only the outer frames are kept, because they do not seem to have called the inner frames.
	// wayBelieved means that all frames are kept despite such a doubt, because many readings in a row agree.
	wayDoubt
	wayBelieved
	// waySuffix counts stacks of which only the inner frames were decoded, because the outer ones were known. Each of
	// these stacks is also counted in one of the ways from wayTwice to wayPart.
	waySuffix
	// wayFiber means that two copies of the stack of a fiber that does not run were read, and are equal.
	wayFiber
	ways
)

func (w way) String() string {
	return [ways]string{"seen", "grown", "once", "resting", "same", "twice", "more", "deep", "cut", "part", "doubt", "believed", "suffix", "fiber"}[w]
}

// sameWay returns the way for a reading that equals the kept stack. otherWay returns the way for a reading whose copies
// are equal, but differ from the kept stack.
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
