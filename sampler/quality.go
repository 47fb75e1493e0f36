package sampler

import (
	"fmt"
	"math"
	"time"
)

// Figure is a kind of figure that ddtop shows, such as shares of time. Each kind needs a different number of samples.
type Figure uint8

// These are the kinds of figures. The kinds that need the fewest samples come first.
const (
	// FigureStates are shares of time by a thread's state, and figures computed from them: how much of a CPU a thread
	// uses, and how much time garbage collection takes.
	FigureStates Figure = iota
	// FigureWaits are figures about waits for the GVL: their number and their length.
	FigureWaits
	// FigureStacks are figures that need stacks: the shares of time by method, and which methods make other threads
	// wait for the GVL.
	FigureStacks
	// FigureRequests are figures about requests and jobs: their number and their duration.
	FigureRequests
	NumFigures
)

// QualityWindow is the length of the time that most figures cover. The screen and the findings use this length.
const QualityWindow = 10 * time.Second

// QualityMargin is a factor. ddtop chooses rates of sampling at which a figure has QualityMargin times its least
// quality. With a margin of 2, figures do not appear and vanish whenever the rates change a little.
const QualityMargin = 2

// LeastQuality is the lowest quality with which ddtop shows a kind of figure. If a field is zero, this field sets no
// condition for the kind.
type LeastQuality struct {
	Figure Figure
	// Name is the kind's word in JSON.
	Name string
	// Samples is the least number of samples in the period that the figure covers. Stacks is the least number of
	// samples with stacks. Both apply to a period without idle time. If the process is idle for a part of the period,
	// fewer are enough.
	Samples, Stacks int64
	// Apart is the longest mean time between two samples while the process works. StacksApart is the same for samples
	// with stacks. No samples are needed while the process is idle, or while the kernel or a probe reports the changes
	// of the GVL.
	Apart, StacksApart time.Duration
	// Why says in a sentence what is wrong with a figure whose quality is too low.
	Why string
}

// LeastQualities holds the least quality of each kind of figure, by Figure. With n samples, the error of a share p is
// √(p(1−p)/n): at most 7 percentage points for 50 samples and 11 for 20. Figures of waits need a sample every 100 ms.
// This is Ruby's time slice, and a wait lasts that long if one other thread computes.
var LeastQualities = [NumFigures]LeastQuality{
	{Figure: FigureStates, Name: "states", Samples: 50,
		Why: "a share of fewer than 50 samples is off by 7 points or more"},
	{Figure: FigureWaits, Name: "waits", Samples: 20, Apart: 100 * time.Millisecond,
		Why: "most waits are missed if samples are more than 100 ms apart"},
	{Figure: FigureStacks, Name: "stacks", Stacks: 20,
		Why: "a method's share of fewer than 20 stack samples is off by 11 points or more"},
	{Figure: FigureRequests, Name: "requests", Stacks: 2, StacksApart: 250 * time.Millisecond,
		Why: "most requests are missed if stacks are read more than 250 ms apart"},
}

// String returns the word for the kind in JSON: states, waits, stacks, requests.
func (f Figure) String() string {
	if f < NumFigures {
		return LeastQualities[f].Name
	}
	return "unknown"
}

// LeastRates returns the rates of sampling, in Hz, at which the figures of a window of time have QualityMargin times
// their least quality. It considers only the kinds of figures whose number is below the parameter kinds. So NumFigures
// means all kinds. exact is true for a process whose changes of the GVL are known without samples. A window shorter
// than QualityWindow shows no figures of stacks, so it does not raise stackHz.
func LeastRates(window time.Duration, exact bool, kinds Figure) (lockHz, stackHz float64) {
	per := func(n int64, of, apart time.Duration) float64 {
		hz := float64(n) / of.Seconds()
		if apart > 0 {
			hz = max(hz, 1/apart.Seconds())
		}
		return QualityMargin * hz
	}
	for i := range kinds {
		q := &LeastQualities[i]
		if !exact {
			lockHz = max(lockHz, per(q.Samples, window, q.Apart))
		}
		stackHz = max(stackHz, per(q.Stacks, max(window, QualityWindow), q.StacksApart))
	}
	// Stacks can only be read at a tick. When a reading is due, it must wait for the next tick. If there were as many
	// ticks as readings, every other reading would be late. So there must be at least twice as many ticks.
	return max(lockHz, 2*stackHz), stackHz
}

// Quality says on how many samples and changes of the GVL the figures of a period are based.
type Quality struct {
	// SpanNS is the length of the period. IdleNS is the part of it in which ddtop read fewer samples, because no thread
	// ran or waited.
	SpanNS, IdleNS int64
	// PolledNS is the part of the period that is known only from samples, because neither the kernel nor a probe
	// reported changes of the GVL. PolledSteps counts the steps from one sample to the next in this part. Both leave
	// out idle time.
	PolledNS, PolledSteps int64
	// Samples is the number of samples, and Stacks the number of samples with the stacks of all threads. Looks counts
	// further samples, which read the stack of a single thread because this thread had begun something, such as a
	// request.
	Samples, Stacks, Looks int64
	// Found is the number of requests whose begin and end ddtop knows from reported changes of the GVL, without a
	// sample. Unfound is the number of requests for which the reports show only the begin.
	Found, Unfound int64
}

// polledShare is the largest share of an exact period (see Exact) that may be known only from samples. This share is
// never zero, because the reports of changes begin a moment after ddtop attached to the process.
const polledShare = .05

// mostUnfound limits the share of requests for which only the begin is known (Quality.Unfound). Up to this share, ddtop
// shows figures of requests even with too few samples. At a smaller share it already marks these figures as lower
// bounds.
const mostUnfound = .2

// finds reports whether reported changes of the GVL show nearly all requests. If they do, figures of requests need no
// samples.
func (q *Quality) finds() bool {
	return q.Found > 0 && float64(q.Unfound) <= mostUnfound*float64(q.Found+q.Unfound)
}

// Add adds the numbers of another period.
func (q *Quality) Add(x *Quality) {
	q.SpanNS, q.IdleNS = q.SpanNS+x.SpanNS, q.IdleNS+x.IdleNS
	q.PolledNS, q.PolledSteps = q.PolledNS+x.PolledNS, q.PolledSteps+x.PolledSteps
	q.Samples, q.Stacks, q.Looks = q.Samples+x.Samples, q.Stacks+x.Stacks, q.Looks+x.Looks
	q.Found, q.Unfound = q.Found+x.Found, q.Unfound+x.Unfound
}

// Since returns the part of q that was added after x. x is an earlier value of q.
func (q Quality) Since(x *Quality) Quality {
	return Quality{
		SpanNS: q.SpanNS - x.SpanNS, IdleNS: q.IdleNS - x.IdleNS, PolledNS: q.PolledNS - x.PolledNS, PolledSteps: q.PolledSteps - x.PolledSteps,
		Samples: q.Samples - x.Samples, Stacks: q.Stacks - x.Stacks, Looks: q.Looks - x.Looks,
		Found: q.Found - x.Found, Unfound: q.Unfound - x.Unfound,
	}
}

// Over returns the quality of a period with another length, in ns, sampled at the same rates as q.
func (q Quality) Over(ns int64) Quality {
	if q.SpanNS == 0 {
		return q
	}
	by := float64(ns) / float64(q.SpanNS)
	scaled := func(v int64) int64 { return int64(math.Round(float64(v) * by)) }
	return Quality{
		SpanNS: ns, IdleNS: scaled(q.IdleNS), PolledNS: scaled(q.PolledNS), PolledSteps: scaled(q.PolledSteps),
		Samples: scaled(q.Samples), Stacks: scaled(q.Stacks), Looks: scaled(q.Looks),
		Found: scaled(q.Found), Unfound: scaled(q.Unfound),
	}
}

// polled returns the part of the period that is known only from samples, from 0 to 1. A share of time has an error only
// in this part. So if polled is 0.5, a quarter (polled²) of the samples is enough for the same error.
func (q *Quality) polled() float64 { return float64(q.PolledNS) / float64(max(q.SpanNS, 1)) }

// Exact reports whether nearly all of the period is known from reported changes, without samples.
func (q *Quality) Exact() bool { return float64(q.PolledNS) <= polledShare*float64(q.SpanNS) }

// ApartNS returns the mean time from one sample to the next while the process worked, in ns. It is zero if all changes
// are known without samples.
func (q *Quality) ApartNS() int64 {
	if q.PolledSteps == 0 {
		return 0
	}
	return q.PolledNS / q.PolledSteps
}

// StacksApartNS returns the mean interval between two readings of stacks while the process worked, in ns. It is zero
// if stacks were never read.
func (q *Quality) StacksApartNS() int64 {
	if q.Stacks == 0 {
		return 0
	}
	return (q.SpanNS - q.IdleNS) / q.Stacks
}

// Lacks returns a sentence that says why the quality is too low for a kind of figure. It is empty if the quality is
// high enough.
func (q *Quality) Lacks(f Figure) string {
	least := &LeastQualities[f]
	busyNS := q.SpanNS - q.IdleNS
	says := func(n int64, what string) string {
		if busyNS <= 0 {
			return fmt.Sprintf("%d %s: %s", n, what, least.Why)
		}
		return fmt.Sprintf("%d %s in %s: %s", n, what, round(busyNS), least.Why)
	}
	switch exact := q.Exact(); {
	case q.SpanNS == 0:
		return says(q.Samples, "samples")
	case f == FigureRequests && q.finds():
		return ""
	case !exact && float64(q.PolledSteps) < float64(least.Samples)*q.polled()*q.polled():
		return says(q.Samples, "samples")
	case !exact && least.Apart > 0 && q.ApartNS() > int64(least.Apart):
		return says(q.Samples, "samples")
	case q.Stacks < least.Stacks && float64(busyNS) > polledShare*float64(q.SpanNS):
		return says(q.Stacks, "readings of stacks")
	case least.StacksApart > 0 && q.Stacks > 0 && busyNS/(q.Stacks+q.Looks) > int64(least.StacksApart):
		return says(q.Stacks, "readings of stacks")
	}
	return ""
}

func round(ns int64) string { return fmt.Sprintf("%.3g s", float64(ns)/1e9) }
