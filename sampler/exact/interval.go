package exact

// State is what a thread did with the GVL.
type State uint8

const (
	// None: not known, or it was no thread of Ruby's.
	None State = iota
	// Running: it held the GVL.
	Running
	// Waiting: it wanted the GVL, in the queue or chosen and not yet running.
	Waiting
	// Released: it neither held the GVL nor wanted it.
	Released
)

// String is the word for JSON: none, running, waiting, released.
func (s State) String() string {
	switch s {
	case Running:
		return "running"
	case Waiting:
		return "waiting"
	case Released:
		return "released"
	}
	return "none"
}

// Interval is a stretch of time in which a thread was in one state. Those of a thread follow each other without a gap.
type Interval struct {
	TID   int32
	State State
	// FromNS and ToNS are CLOCK_MONOTONIC in ns; ToNS is not earlier.
	FromNS, ToNS int64
	// NoCPUNS is for how much of it the thread was runnable and had no CPU, in ns.
	NoCPUNS int64
	// Doubtful: records were lost, or are known to be missing: changes within it may not have been seen.
	Doubtful bool
}

// NS returns how long the interval is, in ns.
func (i *Interval) NS() int64 { return i.ToNS - i.FromNS }

// Wait is one wait for the GVL: the Interval of it, and more.
type Wait struct {
	Interval
	// HandoverNS is the part from when the thread was chosen until it ran, in ns; the rest was in the queue. Up to Ruby 3.2 nobody is
	// chosen: it is the part since the GVL was given away for the last time.
	HandoverNS int64
	// FirstHolder held the GVL when the wait began, or was chosen to; LastHolder held it last before the thread got it; 0: nobody.
	FirstHolder, LastHolder int32
	// InProgress: it goes on, and ToNS is when it was looked last.
	InProgress bool
}

// Consumer takes what a Machine makes of records. What it is given is valid during the call only.
type Consumer interface {
	// Interval takes a stretch of time that is over, in order of its end.
	Interval(*Interval)
	// Waited takes a wait that is over, after its Interval; at Machine.Finish one that goes on.
	Waited(*Wait)
}
