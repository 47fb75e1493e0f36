package report

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// StatFinding is a problem that ddtop found in the measured time. Its text and figures describe the moment at which the
// problem was worst.
type StatFinding struct {
	ID       string `json:"id"`
	Severity string `json:"severity"`
	Title    string `json:"title"`
	Text     string `json:"text"`
	Next     string `json:"next"`
	// SinceNS is when the finding began, and UntilNS when it ended. UntilNS is null while the finding is active.
	SinceNS int64  `json:"since_monotonic_ns"`
	UntilNS *int64 `json:"until_monotonic_ns"`
	// AgoNS is the time from the end of the finding to the end of the measured time, in ns. It is null while the
	// finding is active. If the finding has ended, Title and Text are in the past tense.
	AgoNS *int64 `json:"ago_ns"`
	// Threads are the threads that the finding is about. The thread that causes the problem comes first.
	Threads []sampler.ThreadID `json:"threads"`
	// Endpoint is the route or class of jobs that contributes most to the finding. It is null if there is no such
	// endpoint.
	Endpoint *string `json:"endpoint"`
	// Evidence is the number of samples on which the finding is based.
	Evidence StatEvidence `json:"evidence"`
	// Stack is the stack of the first one of Threads. It is zero if this stack is not known.
	Stack sampler.StackID `json:"-"`
}

// When returns a prefix for the title of an ended finding, such as "12 s ago: ". The time is from the end of the
// finding to the end of the measured time. The prefix is empty while the finding is active.
func (f *StatFinding) When() string {
	if f.AgoNS == nil {
		return ""
	}
	return Ago(*f.AgoNS)
}

// StatEvidence says on how many samples a finding is based. A finding uses the data of ten seconds. Samples is the
// number of samples in this time, and Stacks is how many of them have stacks. ApartNS is the mean time between samples,
// in ns. It is zero if ddtop recorded each change of the GVL as it happened, and so did not need samples.
type StatEvidence struct {
	Samples int64 `json:"samples"`
	Stacks  int64 `json:"stacks"`
	ApartNS int64 `json:"apart_ns"`
	// Native names the C functions in which the first thread of the finding stays. The outermost function comes first.
	// It is null if they are not known.
	Native *string `json:"native"`
}

// StatBlame splits the time that threads waited for the GVL, by what the holder of the GVL did meanwhile. Times are in
// ns, added up for the waiting threads: if two threads wait for 1 ns, the sum is 2. TotalNS = NobodyNS + OtherNS +
// RunningNS + StalledNS + GCNS.
type StatBlame struct {
	TotalNS int64 `json:"total_ns"`
	// NobodyNS is the waiting time in which no thread held the GVL, because the next holder did not run yet. OtherNS is
	// the waiting time that two kinds of threads caused: threads that no sample listed, and holders that were not
	// counted separately. account.Blame counts only a limited number of holders separately.
	NobodyNS int64 `json:"nobody_ns"`
	OtherNS  int64 `json:"other_ns"`
	// RunningNS, StalledNS and GCNS are the rest of the waiting time, split by the state of the GVL's holder: running,
	// stalled or gc.
	RunningNS int64 `json:"running_ns"`
	StalledNS int64 `json:"stalled_ns"`
	GCNS      int64 `json:"gc_ns"`
	// Frames has the code of the holders of the GVL (the innermost frames), and Threads has the holders themselves. In
	// both lists, the entry that made other threads wait longest comes first.
	Frames  []StatPlace  `json:"frames"`
	Threads []StatCharge `json:"threads"`
	enough
}

// StatPlace is a place in the code that held the GVL while other threads waited for it.
type StatPlace struct {
	StatCode
	// Thread is the thread that made other threads wait longest while it ran at this place in the code.
	Thread sampler.ThreadID `json:"thread"`
	NS     int64            `json:"ns"`
	Share  float64          `json:"share"`
}

// StatCode is the innermost frame of a stack. If this frame belongs to Ruby itself, Caller is the innermost method of
// the program or of a library. Otherwise Caller is "".
type StatCode struct {
	Label  string `json:"label"`
	Path   string `json:"path"`
	Line   int32  `json:"line"`
	Caller string `json:"caller"`
	// Uncertain is set if the frame or its line number may be wrong.
	Uncertain bool `json:"uncertain"`
	// Mark is appended to the label of a frame that may be wrong. For other frames it is "".
	Mark string `json:"-"`
}

// Text returns the text that is displayed: the label, followed by Mark.
func (c *StatCode) Text() string { return c.Label + c.Mark }

// StatCharge is a thread that made other threads wait for the GVL. Method is the method in which this thread made the
// others wait longest.
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
	// NS is the length of the wait, in ns. Bound says whether NS is exact, a lower bound or an upper bound. The true
	// length lies between LeastNS and MostNS. MostNS is null if the wait may be longer than the part that samples show:
	// it has not ended, or samples did not see when it began.
	NS         int64     `json:"ns"`
	Bound      gvl.Bound `json:"bound"`
	LeastNS    int64     `json:"least_ns"`
	MostNS     *int64    `json:"most_ns"`
	InProgress bool      `json:"in_progress"`
	// Before is the state of the thread just before it waited. It is null if no sample saw this state.
	Before *StatBefore `json:"before"`
	// Method is the code in which the thread waited for the GVL, such as "Report#build → JSON.generate". It comes from
	// the stack at the end of the wait (Wait.Stack). It is "" if it is not known.
	Method string `json:"method"`
	// Exact and the fields below have the same meaning as the fields of gvl.Wait with these names.
	Exact       bool             `json:"exact"`
	HandoverNS  int64            `json:"handover_ns"`
	NoCPUNS     int64            `json:"no_cpu_ns"`
	FirstHolder sampler.ThreadID `json:"first_holder"`
	LastHolder  sampler.ThreadID `json:"last_holder"`
}

// Told returns the length of the wait with its Bound. With the Bound, a text can show that a length is only a lower or
// an upper bound.
func (w *StatWait) Told() gvl.Bounded { return gvl.Bounded{NS: w.NS, Bound: w.Bound} }

// StatBefore is the state of a thread before a wait, and how long the state lasted. Detail says more about the state
// (docs/reference/json.md). Words describes the state as a text.
type StatBefore struct {
	State  string         `json:"state"`
	Detail map[string]any `json:"detail"`
	Words  string         `json:"words"`
	NS     int64          `json:"ns"`
}

// StatNative is a native thread that runs no Ruby thread. It has the thread's name in the kernel, and the thread's CPU
// time in the measured time.
type StatNative struct {
	TID   int32  `json:"tid"`
	Name  string `json:"name"`
	CPUNS int64  `json:"cpu_ns"`
	// Taken is the number of times that ddtop copied the C stack of the thread while the thread ran. Ran lists the
	// places in the code that these stacks show, the most frequent place first. Ran is null if no stacks were copied.
	Taken int         `json:"taken"`
	Ran   []StatAlone `json:"ran"`
}

// StatAlone is a C stack of a running thread that is not a Ruby thread. Taken is the number of copies with this stack.
// Chain and Frames have the same meaning as in StatNativeWait.
type StatAlone struct {
	Chain  string            `json:"chain"`
	Frames []DumpNativeFrame `json:"frames"`
	Taken  int               `json:"taken"`
}

// FillNative sets the native threads that run no Ruby thread, the busiest first.
func (s *Stat) FillNative(list []StatNative) {
	s.NativeThreads = append([]StatNative{}, list...)
	sorting.StableBy(s.NativeThreads, func(a, b StatNative) int { return int(min(max(b.CPUNS-a.CPUNS, -1), 1)) })
}

// Sampled removes the data of exact mode from waits. Only data from samples remains. Sampled is called if the records
// of exact mode cannot be trusted.
func (s *Stat) Sampled() {
	for i := range s.LongestWaits {
		w := &s.LongestWaits[i]
		w.Exact, w.HandoverNS, w.NoCPUNS, w.FirstHolder, w.LastHolder, w.Method = false, 0, 0, 0, 0, ""
	}
}

// Ago returns a prefix for the title of a finding that has ended, such as "12 s ago: ". agoNS is the time since the
// end, in ns. The prefix is empty if agoNS is zero.
func Ago(agoNS int64) string {
	if agoNS == 0 {
		return ""
	}
	return units.ProseDuration(max(agoNS/1e9, 1)*1e9) + " ago: "
}
