package ui

import (
	"time"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// scene is what the picture is made from: what the last refresh took over from the Store, the stretch of time that is shown,
// and how the screen looks. Views get it to load, to draw and to describe; they change nothing in it, and what a key or a click
// changes is the Model's to do. Only the zones they add to while they draw.
type scene struct {
	span
	style.Colors
	dict   *sampler.Dictionary
	opt    Options
	now    func() time.Time
	offers offers
	page   pageID
	// threadFrom is the page that the page of one thread was opened from, focus the part of the live view that has the keys.
	threadFrom pageID
	focus      focus
	// presenting: see present.
	presenting    bool
	width, height int
	regions       regions

	process sampler.Process
	source  store.SourceState
	exact   sampler.ExactStatus // zero where exact mode is not possible
	// switches is zero where thread switches cannot be followed.
	switches sampler.SwitchStatus
	// states and moment are what every thread did at heldNS, and the sample that says so: atNS, unless the history does
	// not reach there.
	states []gvl.ThreadState
	moment *sampler.Sample
	heldNS int64
	// fromNS and toNS are the edges of the time axis, cells how many columns it has.
	fromNS, toNS int64
	cells        int
	exactSpans   store.ExactSpans // known exactly
	figures      figures
	findings     findingsView
	notes        notes
	// threads are those of the time shown, weights where their time went: of weightsOf.
	threads   threadList
	weights   flamegraph.Snapshot
	weightsOf flameRange
	served    served
	*selection

	drag  *drag  // nil: the mouse selects no stretch of time
	zones []zone // where a click does something
}

// bodyRows is the height of a page.
func (sc *scene) bodyRows() int { return sc.regions.detail - sc.regions.axis - 1 }
