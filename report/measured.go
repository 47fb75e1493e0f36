package report

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// StatFinding is a finding of the window. Its text and figures describe the moment at which the finding was worst.
type StatFinding struct {
	ID       string `json:"id"`
	Severity string `json:"severity"`
	Title    string `json:"title"`
	Text     string `json:"text"`
	Next     string `json:"next"`
	// UntilNS is null while the finding is active.
	SinceNS int64  `json:"since_monotonic_ns"`
	UntilNS *int64 `json:"until_monotonic_ns"`
	// AgoNS is how long before the end of the window the finding ended, in ns. It is null while the finding is active.
	// Title and Text of an ended finding are in the past tense.
	AgoNS *int64 `json:"ago_ns"`
	// Threads are the threads concerned. The thread that causes the finding comes first.
	Threads []sampler.ThreadID `json:"threads"`
	// Endpoint is the route or job class that contributes most to the finding. It is null if there is none.
	Endpoint *string `json:"endpoint"`
	// Evidence says how many samples the finding is based on.
	Evidence StatEvidence `json:"evidence"`
	// Stack is the stack of the first of Threads. It is zero if none is known.
	Stack sampler.StackID `json:"-"`
}

// When returns how long before the window's end the finding ended, to put before the title: "12 s ago: ". It is empty
// while the finding is active.
func (f *StatFinding) When() string {
	if f.AgoNS == nil {
		return ""
	}
	return Ago(*f.AgoNS)
}

// StatEvidence says how many samples a finding is based on. A finding is made from the data of ten seconds. Samples
// and Stacks count the samples, and the samples with stacks, in this time. ApartNS is the mean time between samples,
// in ns. It is zero if ddtop saw each change of the GVL as it happened and so did not depend on samples.
type StatEvidence struct {
	Samples int64 `json:"samples"`
	Stacks  int64 `json:"stacks"`
	ApartNS int64 `json:"apart_ns"`
	// Native names the C functions in which the finding's first thread stays, outermost first. It is null if they are
	// not known.
	Native *string `json:"native"`
}

// StatBlame divides the time that all threads waited for the GVL by what held the GVL meanwhile. Times are in
// thread·ns: two threads that wait for 1 ns count 2. TotalNS = NobodyNS + OtherNS + RunningNS + StalledNS + GCNS.
type StatBlame struct {
	TotalNS int64 `json:"total_ns"`
	// NobodyNS is the time in which no thread held the GVL (hand-over). OtherNS is the time behind holders that
	// exceeded the limit of account.Blame, and behind threads that no sample listed.
	NobodyNS int64 `json:"nobody_ns"`
	OtherNS  int64 `json:"other_ns"`
	// RunningNS, StalledNS and GCNS are the rest, divided by what the holder did.
	RunningNS int64 `json:"running_ns"`
	StalledNS int64 `json:"stalled_ns"`
	GCNS      int64 `json:"gc_ns"`
	// Frames and Threads are the innermost frames and the threads that made others wait, the largest first.
	Frames  []StatPlace  `json:"frames"`
	Threads []StatCharge `json:"threads"`
	enough
}

// StatPlace is a place in the code that made others wait.
type StatPlace struct {
	StatCode
	// Thread is the thread that made others wait longest at this place.
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
	// Uncertain is set if the frame or its line cannot be trusted.
	Uncertain bool `json:"uncertain"`
	// Mark is appended to the label of a frame that cannot be trusted.
	Mark string `json:"-"`
}

// Text returns the label with Mark, as it is displayed.
func (c *StatCode) Text() string { return c.Label + c.Mark }

// StatCharge is a thread that made others wait, and the method in which it caused most of this waiting.
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
	// NS is the length of the wait. It is a lower or upper bound if Bound says so. The true length lies between
	// LeastNS and MostNS. MostNS is null if the wait may have begun before samples saw it.
	NS         int64     `json:"ns"`
	Bound      gvl.Bound `json:"bound"`
	LeastNS    int64     `json:"least_ns"`
	MostNS     *int64    `json:"most_ns"`
	InProgress bool      `json:"in_progress"`
	// Before is the state of the thread before it waited. It is null if it was not seen.
	Before *StatBefore `json:"before"`
	// Method is the code in which the thread waited, as in "Report#build → JSON.generate". It comes from the stack at
	// the end of the wait (Wait.Stack). It is "" if it is not known.
	Method string `json:"method"`
	// Exact and the following fields have the same meaning as in gvl.Wait.
	Exact       bool             `json:"exact"`
	HandoverNS  int64            `json:"handover_ns"`
	NoCPUNS     int64            `json:"no_cpu_ns"`
	FirstHolder sampler.ThreadID `json:"first_holder"`
	LastHolder  sampler.ThreadID `json:"last_holder"`
}

// Told returns the length of the wait as it is displayed.
func (w *StatWait) Told() gvl.Bounded { return gvl.Bounded{NS: w.NS, Bound: w.Bound} }

// StatBefore is the state before a wait and its length. Detail has the keys of docs/reference/json.md, and Words says
// the same as text.
type StatBefore struct {
	State  string         `json:"state"`
	Detail map[string]any `json:"detail"`
	Words  string         `json:"words"`
	NS     int64          `json:"ns"`
}

// StatNative is a native thread that Ruby does not know, with the kernel's name for it and its CPU time in the window.
type StatNative struct {
	TID   int32  `json:"tid"`
	Name  string `json:"name"`
	CPUNS int64  `json:"cpu_ns"`
	// Taken is the number of C stacks that were taken of the thread while it ran. Ran lists where they were taken, the
	// most frequent place first. Ran is null if none were taken.
	Taken int         `json:"taken"`
	Ran   []StatAlone `json:"ran"`
}

// StatAlone is a C stack of a running thread. The field Taken is how often the thread was seen with this stack. Chain
// and Frames are as in StatNativeWait.
type StatAlone struct {
	Chain  string            `json:"chain"`
	Frames []DumpNativeFrame `json:"frames"`
	Taken  int               `json:"taken"`
}

// FillNative sets the native threads that Ruby does not know, the busiest first.
func (s *Stat) FillNative(list []StatNative) {
	s.NativeThreads = append([]StatNative{}, list...)
	sorting.StableBy(s.NativeThreads, func(a, b StatNative) int { return int(min(max(b.CPUNS-a.CPUNS, -1), 1)) })
}

// Sampled removes exact data from waits, because the records of GVL changes behind them cannot be trusted.
func (s *Stat) Sampled() {
	for i := range s.LongestWaits {
		w := &s.LongestWaits[i]
		w.Exact, w.HandoverNS, w.NoCPUNS, w.FirstHolder, w.LastHolder, w.Method = false, 0, 0, 0, 0, ""
	}
}

// Ago returns how long ago a finding ended, as text to put before its title: "12 s ago: ". It is empty if agoNS is
// zero.
func Ago(agoNS int64) string {
	if agoNS == 0 {
		return ""
	}
	return units.ProseDuration(max(agoNS/1e9, 1)*1e9) + " ago: "
}
