package ruby

// way says how a stack was read, and so how ddtop knows that it is right.
type way int

const (
	// waySeen means that the execution context was new. wayGrown means that the stack had more inner frames than were
	// read. In both cases ddtop reads the stack again, and counts the second reading as well.
	waySeen way = iota
	wayGrown
	// wayOnce means that one copy was read, which equals the kept stack. wayResting means one copy that equals the
	// stack on which the thread waited before. waySame means several copies, of which the first equals the kept stack.
	wayOnce
	wayResting
	waySame
	// wayTwice means that two copies were read and are equal. wayMore means more than two equal copies.
	wayTwice
	wayMore
	// wayDeep and wayCut mean that the copies of an exact reading (stackExact) are equal. With wayDeep it is a whole
	// stack, and with wayCut a stack without its middle.
	wayDeep
	wayCut
	// wayPart means that only the outer frames are kept, because the copies differ in the inner frames.
	wayPart
	// wayDoubt means that only the outer frames are kept, because they do not seem to have called the inner frames.
	// wayBelieved means that all frames are kept nevertheless, because many readings in a row agree.
	wayDoubt
	wayBelieved
	// waySuffix counts stacks of which only the inner frames were decoded, because the outer ones were known. Each of
	// these stacks also counts as one of wayTwice to wayPart.
	waySuffix
	// wayFiber means two equal copies of the stack of a fiber that does not run.
	wayFiber
	ways
)

func (w way) String() string {
	return [ways]string{"seen", "grown", "once", "resting", "same", "twice", "more", "deep", "cut", "part", "doubt", "believed", "suffix", "fiber"}[w]
}

// sameWay returns the way for a reading that equals the kept stack. otherWay returns the way for a reading that differs
// from it, with equal copies.
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
