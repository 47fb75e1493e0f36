package account

import (
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/code"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// StatFinding is a finding of the window, as it was at its worst.
type StatFinding struct {
	ID       string `json:"id"`
	Severity string `json:"severity"`
	Title    string `json:"title"`
	Text     string `json:"text"`
	Next     string `json:"next"`
	// SinceNS and UntilNS are CLOCK_MONOTONIC in ns; UntilNS is null while it goes on.
	SinceNS int64  `json:"since_monotonic_ns"`
	UntilNS *int64 `json:"until_monotonic_ns"`
	// AgoNS is how long before the end of the window the finding ended, in ns. It is null while the finding is active.
	// Once the finding has ended, Title and Text are in the past tense.
	AgoNS *int64 `json:"ago_ns"`
	// Threads are those concerned, the culprit first.
	Threads []sampler.ThreadID `json:"threads"`
	// Endpoint is the route or job class that most of it is of; null: none, or it is not known.
	Endpoint *string `json:"endpoint"`
	// Evidence is what its figures rest on.
	Evidence StatEvidence `json:"evidence"`
	// Stack is the culprit's; 0: there is none.
	Stack sampler.StackID `json:"-"`
}

// StatEvidence is what a finding rests on. Its figures are of ten seconds. It holds the number of samples in that
// time, the number of these that read stacks, and the mean time between two samples in whole µs. ApartNS is zero if
// changes are known without samples.
type StatEvidence struct {
	Samples int64 `json:"samples"`
	Stacks  int64 `json:"stacks"`
	ApartNS int64 `json:"apart_ns"`
}

// When says how long before the window's end it ended, before the title: "12 s ago: "; "" while it goes on.
func (f *StatFinding) When() string {
	if f.AgoNS == nil {
		return ""
	}
	return Ago(*f.AgoNS)
}

// StatBlame is the waiting of all threads and who held the GVL meanwhile: TotalNS = NobodyNS + OtherNS + RunningNS +
// StalledNS + GCNS, thread·ns.
type StatBlame struct {
	TotalNS int64 `json:"total_ns"`
	// NobodyNS is the part in which nobody held the GVL (hand-over); OtherNS was charged to holders beyond the limit on
	// those kept apart.
	NobodyNS int64 `json:"nobody_ns"`
	OtherNS  int64 `json:"other_ns"`
	// The rest by what the holder did with it: ran, slept in the kernel, collected garbage.
	RunningNS int64 `json:"running_ns"`
	StalledNS int64 `json:"stalled_ns"`
	GCNS      int64 `json:"gc_ns"`
	// Frames are the innermost frames and Threads the threads charged most, largest first, maxStatBlame of each.
	Frames  []StatPlace  `json:"frames"`
	Threads []StatCharge `json:"threads"`
	low     bool
}

// maxStatBlame is how many places and threads a Stat blames.
const maxStatBlame = 10

// StatPlace is a place in the code that made others wait.
type StatPlace struct {
	StatCode
	// Thread is the one charged most for it.
	Thread sampler.ThreadID `json:"thread"`
	NS     int64            `json:"ns"`
	Share  float64          `json:"share"`
}

// StatCode is the innermost frame of a stack. If that frame belongs to Ruby itself, StatCode also has the innermost
// method of the program or of a library. That method is "" otherwise.
type StatCode struct {
	Label  string `json:"label"`
	Path   string `json:"path"`
	Line   int32  `json:"line"`
	Caller string `json:"caller"`
	// Uncertain: the frame or its line can't be trusted.
	Uncertain bool `json:"uncertain"`
	mark      string
}

// Text is the label as people read it. That of a frame that can't be trusted ends with sampler.UncertainMark.
func (c *StatCode) Text() string { return c.Label + c.mark }

// codeOf names the code of a frame. If the frame is one of Ruby's own, its caller is looked for in outer.
func codeOf(dict *sampler.Dictionary, frame sampler.FrameID, outer sampler.StackID, builtIn func(*sampler.Frame) bool) StatCode {
	f := dict.Frame(frame)
	c := StatCode{Label: f.Label, Path: f.Path, Line: f.Line, Uncertain: f.Uncertain, mark: f.Mark()}
	if !builtIn(&f) {
		return c
	}
	for _, o := range code.Frames(dict, outer, code.MaxNear) {
		if !builtIn(&o) {
			c.Caller = o.Label
			break
		}
	}
	return c
}

// StatCharge is a thread that made others wait, and its method behind most of that ("" when there is none).
type StatCharge struct {
	Thread sampler.ThreadID `json:"thread"`
	NS     int64            `json:"ns"`
	Share  float64          `json:"share"`
	Method string           `json:"method"`
}

// StatWait is one wait for the GVL.
type StatWait struct {
	Thread  sampler.ThreadID `json:"thread"`
	StartNS int64            `json:"start_monotonic_ns"`
	// NS is the length of the wait, or a bound of it if Bound says so. The length lies between LeastNS and MostNS.
	// MostNS is null if the wait can be longer than the part that samples saw.
	NS         int64     `json:"ns"`
	Bound      gvl.Bound `json:"bound"`
	LeastNS    int64     `json:"least_ns"`
	MostNS     *int64    `json:"most_ns"`
	InProgress bool      `json:"in_progress"`
	// Before is what the thread did before it waited; null when that was not seen.
	Before *StatBefore `json:"before"`
	// Method is the code in which the thread waited, as in "Report#build → JSON.generate". It comes from the stack
	// with which the wait ended (Wait.Stack). It is "" if that is not known.
	Method string `json:"method"`
	// Exact and the rest are those of Wait.
	Exact       bool             `json:"exact"`
	HandoverNS  int64            `json:"handover_ns"`
	NoCPUNS     int64            `json:"no_cpu_ns"`
	FirstHolder sampler.ThreadID `json:"first_holder"`
	LastHolder  sampler.ThreadID `json:"last_holder"`
}

// Told is the wait's length as it is told.
func (w *StatWait) Told() gvl.Bounded { return gvl.Bounded{NS: w.NS, Bound: w.Bound} }

// StatBefore is a state before a wait. It has the state's details under the keys of docs/reference/json.md, the same
// in words, and the length of the state as far as it was seen.
type StatBefore struct {
	State  string         `json:"state"`
	Detail map[string]any `json:"detail"`
	Words  string         `json:"words"`
	NS     int64          `json:"ns"`
}

// StatNative is a native thread that Ruby does not know: its name as the kernel has it and its CPU time in the window.
type StatNative struct {
	TID   int32  `json:"tid"`
	Name  string `json:"name"`
	CPUNS int64  `json:"cpu_ns"`
}

// FillNative sets the native threads that Ruby does not know, the busiest first.
func (s *Stat) FillNative(list []StatNative) {
	s.NativeThreads = append([]StatNative{}, list...)
	slices.SortStableFunc(s.NativeThreads, func(a, b StatNative) int { return int(min(max(b.CPUNS-a.CPUNS, -1), 1)) })
}

// Sampled takes back that waits are known exactly: the changes that said so are not to be trusted.
func (s *Stat) Sampled() {
	for i := range s.LongestWaits {
		w := &s.LongestWaits[i]
		w.Exact, w.HandoverNS, w.NoCPUNS, w.FirstHolder, w.LastHolder, w.Method = false, 0, 0, 0, 0, ""
	}
}

// Ago says how long before now something ended, before its title: "12 s ago: ". It is empty for what goes on.
func Ago(agoNS int64) string {
	if agoNS == 0 {
		return ""
	}
	return units.ProseDuration(max(agoNS/1e9, 1)*1e9) + " ago: "
}

// Stat returns the blame of the whole run.
func (b *Blame) Stat() StatBlame {
	all := b.Top(maxBlameEntries, ByStack, 0)
	out := StatBlame{
		TotalNS: all.TotalNS, NobodyNS: all.NobodyNS, OtherNS: all.OtherNS, Frames: []StatPlace{}, Threads: []StatCharge{},
	}
	for _, e := range all.Entries {
		switch e.Kind {
		case gvl.GC:
			out.GCNS += e.NS
		case gvl.Stalled:
			out.StalledNS += e.NS
		default:
			out.RunningNS += e.NS
		}
	}
	for _, e := range b.Top(maxStatBlame, ByFrame, 0).Entries {
		out.Frames = append(out.Frames, b.place(e))
	}
	for _, e := range b.Top(maxStatBlame, ByThread, 0).Entries {
		method := b.Method(e.Thread, 0)
		out.Threads = append(out.Threads, StatCharge{Thread: e.Thread, NS: e.NS, Share: e.Share, Method: method})
	}
	return out
}

// place names the code of an entry by frame.
func (b *Blame) place(e BlameEntry) StatPlace {
	p := StatPlace{Thread: e.Thread, NS: e.NS, Share: e.Share}
	if b.dict != nil && e.Frame != 0 {
		caller, _ := b.dict.Stack(e.Stack)
		p.StatCode = codeOf(b.dict, e.Frame, caller, func(f *sampler.Frame) bool { return f.C })
	}
	return p
}
