package scene

import (
	"time"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// Scene is what the picture is made from: what the last refresh took over from the Store, the stretch of time that is shown,
// and how the screen looks. Views get it to load, to draw and to describe; they change nothing in it, and what a key or a click
// changes is the Model's to do. Only the zones they add to while they draw.
type Scene struct {
	Span
	style.Colors
	Dict   *sampler.Dictionary
	Opt    Options
	Now    func() time.Time
	Offers Offers
	Page   PageID
	// ThreadFrom is the page that the page of one thread was opened from, focus the part of the live view that has the keys.
	ThreadFrom PageID
	Focus      Focus
	// presenting: see present.
	Presenting    bool
	Width, Height int
	Regions       Regions

	Process sampler.Process
	Source  store.SourceState
	Exact   sampler.ExactStatus // zero where exact mode is not possible
	// Switches is zero where thread switches cannot be followed.
	Switches sampler.SwitchStatus
	// States and moment are what every thread did at heldNS, and the sample that says so: atNS, unless the history does
	// not reach there.
	States []gvl.ThreadState
	Moment *sampler.Sample
	HeldNS int64
	// FromNS and toNS are the edges of the time axis, cells how many columns it has.
	FromNS, ToNS int64
	Cells        int
	ExactSpans   store.ExactSpans // known exactly
	Figures      Figures
	Findings     Findings
	Notes        Notes
	// Threads are those of the time shown, weights where their time went: of weightsOf.
	Threads   Threads
	Weights   flamegraph.Snapshot
	WeightsOf FlameRange
	Served    Served
	*Selection

	Drag  *Drag  // nil: the mouse selects no stretch of time
	Zones []Zone // where a click does something
}

// BodyRows is the height of a page.
func (sc *Scene) BodyRows() int { return sc.Regions.Detail - sc.Regions.Axis - 1 }
