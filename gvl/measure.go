package gvl

import (
	"cmp"
	"slices"

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
	// AgoNS is how long before the window's end it ended, in ns; null while it goes on. Title and Text are in the past tense then.
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

// StatEvidence is what a finding rests on: the samples, and those of them that read stacks, of the ten seconds that its figures are of, and the
// mean time between two samples, in whole µs. ApartNS is zero if changes are known without samples.
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
	return when(*f.AgoNS)
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
	Label string `json:"label"`
	Path  string `json:"path"`
	Line  int32  `json:"line"`
	// Caller is the innermost method written in Ruby, when Label is a C function; "" otherwise.
	Caller string `json:"caller"`
	// Uncertain: the frame or its line can't be trusted.
	Uncertain bool `json:"uncertain"`
	mark      string
	// Thread is the one charged most for it.
	Thread sampler.ThreadID `json:"thread"`
	NS     int64            `json:"ns"`
	Share  float64          `json:"share"`
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
	// NS is its length, or what Bound says it is of that. It lies between LeastNS and MostNS; MostNS is null if it can be longer than what
	// samples saw of it.
	NS         int64  `json:"ns"`
	Bound      Bound  `json:"bound"`
	LeastNS    int64  `json:"least_ns"`
	MostNS     *int64 `json:"most_ns"`
	InProgress bool   `json:"in_progress"`
	// Before is what the thread did before it waited; null when that was not seen.
	Before *StatBefore `json:"before"`
	// Method is the code in which it waited, as in "Report#build → JSON.generate", by the stack with which the wait ended (Wait.Stack); "":
	// that is not known.
	Method string `json:"method"`
	// Exact and the rest are those of Wait.
	Exact       bool             `json:"exact"`
	HandoverNS  int64            `json:"handover_ns"`
	NoCPUNS     int64            `json:"no_cpu_ns"`
	FirstHolder sampler.ThreadID `json:"first_holder"`
	LastHolder  sampler.ThreadID `json:"last_holder"`
}

// Told is the wait's length as it is told.
func (w *StatWait) Told() Bounded { return Bounded{w.NS, w.Bound} }

// StatBefore is a state before a wait, its detail by the keys of docs/reference/json.md, in words, and how long it lasted as far as
// seen.
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

// Measure is all that `ddtop stat` tells of a stream: totals, findings, blame and the longest waits, behind one Feed. It
// is not safe for concurrent use.
type Measure struct {
	dict     *sampler.Dictionary
	class    *Classifier
	stream   *Stream
	account  *Account
	blame    *Blame
	findings *Findings
	requests *Requests
}

// NewMeasure returns a Measure for the target p, whose samples' IDs point into dict. r are the findings' rules; nil: as
// they are.
func NewMeasure(p sampler.Process, dict *sampler.Dictionary, r *Rules) *Measure {
	stream := NewStream(p)
	blame, requests := newBlame(stream, dict), NewRequests(stream, dict, MaxBlameWindowNS)
	return &Measure{
		dict: dict, class: NewClassifier(p, dict), stream: stream, account: NewAccount(stream, p, dict), blame: blame,
		findings: newFindings(stream, p, dict, blame, requests, r), requests: requests,
	}
}

// Stream is what the Measure makes of its samples, for more consumers; before the first sample.
func (m *Measure) Stream() *Stream { return m.stream }

// LongestRequests returns the n requests and jobs that took longest of those that are remembered, in progress or over, the longest first.
// The slice is the caller's.
func (m *Measure) LongestRequests(n int) []Request {
	all := m.requests.Running()
	m.requests.ended.each(func(q *Request) { all = append(all, *q) })
	slices.SortFunc(all, func(x, y Request) int {
		return cmp.Or(cmp.Compare(y.DurationNS(), x.DurationNS()), compareRequests(x, y))
	})
	return slices.Clone(all[:min(n, len(all))])
}

// Feed adds one sample and returns its states, which are valid until the next Feed. Samples must come in order of time; they are
// not kept. In the steady state nothing is allocated.
func (m *Measure) Feed(s *sampler.Sample) []ThreadState {
	states := m.class.Classify(s)
	m.stream.Feed(s, states)
	return states
}

// Classify gives the verdict on a sample that is not part of the measurement, one taken after it.
func (m *Measure) Classify(s *sampler.Sample) []ThreadState { return m.class.Classify(s) }

// Alloc returns what was allocated in the stream, by class.
func (m *Measure) Alloc() StatAlloc { return AllocOf(m.account.firstClasses, m.account.lastClasses) }

// Findings returns what was wrong in the stream: see Findings.Raised.
func (m *Measure) Findings() []StatFinding {
	out := []StatFinding{}
	for _, f := range m.findings.raised() {
		s := StatFinding{
			ID: f.ID, Severity: f.Severity.String(), Title: f.Title, Text: f.Text, Next: f.Next, SinceNS: f.SinceNS,
			Threads: append([]sampler.ThreadID{}, f.Threads...), Endpoint: textOrNil(f.Endpoint), Stack: f.Stack,
			Evidence: StatEvidence{f.Evidence.Samples, f.Evidence.Stacks, f.Evidence.ApartNS() / 1e3 * 1e3},
		}
		if f.UntilNS != 0 {
			until, ago := f.UntilNS, f.AgoNS
			s.UntilNS, s.AgoNS = &until, &ago
		}
		out = append(out, s)
	}
	return out
}

// Stat returns the totals so far with findings, blame and the longest waits of at least waitNS, maxLongestWaits at most.
// The threshold hides waits from that list only.
func (m *Measure) Stat(waitNS int64) Stat {
	s := m.account.Stat()
	s.Findings = m.Findings()
	s.Blame = m.statBlame()
	s.Requests = m.Requests(nil)
	s.LongestWaits = []StatWait{}
	for _, w := range m.account.longestWaits(maxLongestWaits, waitNS) {
		told := w.Told()
		x := StatWait{
			Thread: w.Thread, StartNS: w.FromNS, NS: told.NS, Bound: told.Bound, LeastNS: w.LeastNS, InProgress: w.InProgress, Exact: w.Exact, HandoverNS: w.HandoverNS,
			NoCPUNS: w.NoCPUNS, FirstHolder: w.FirstHolder, LastHolder: w.LastHolder, Method: rubyMethod(m.dict, w.Stack),
		}
		if !w.Open() {
			most := w.MostNS
			x.MostNS = &most
		}
		if w.Before.State != Unknown {
			b := w.Before
			x.Before = &StatBefore{
				State: b.State.String(), Detail: b.Detail.JSON(b.State, m.dict), Words: Describe(b, m.dict), NS: b.DurationNS(),
			}
		}
		s.LongestWaits = append(s.LongestWaits, x)
	}
	s.leaveOut()
	return s
}

// Sampled takes back that waits are known exactly: the changes that said so are not to be trusted.
func (s *Stat) Sampled() {
	for i := range s.LongestWaits {
		w := &s.LongestWaits[i]
		w.Exact, w.HandoverNS, w.NoCPUNS, w.FirstHolder, w.LastHolder, w.Method = false, 0, 0, 0, 0, ""
	}
}

func (m *Measure) statBlame() StatBlame {
	all := m.blame.top(maxBlameEntries, blameByStack, 0)
	out := StatBlame{
		TotalNS: all.TotalNS, NobodyNS: all.NobodyNS, OtherNS: all.OtherNS, Frames: []StatPlace{}, Threads: []StatCharge{},
	}
	for _, e := range all.Entries {
		switch e.Kind {
		case GC:
			out.GCNS += e.NS
		case Stalled:
			out.StalledNS += e.NS
		default:
			out.RunningNS += e.NS
		}
	}
	for _, e := range m.blame.top(maxStatBlame, blameByFrame, 0).Entries {
		out.Frames = append(out.Frames, m.place(e))
	}
	for _, e := range m.blame.top(maxStatBlame, blameByThread, 0).Entries {
		method := m.blame.Method(e.Thread, 0)
		out.Threads = append(out.Threads, StatCharge{Thread: e.Thread, NS: e.NS, Share: e.Share, Method: method})
	}
	return out
}

// Text is the label as people read it. That of a frame that can't be trusted ends with sampler.UncertainMark.
func (p *StatPlace) Text() string { return p.Label + p.mark }

// place names the code of an entry by frame.
func (m *Measure) place(e blameEntry) StatPlace {
	p := StatPlace{Thread: e.Thread, NS: e.NS, Share: e.Share}
	if m.dict == nil || e.Frame == 0 {
		return p
	}
	f := m.dict.Frame(e.Frame)
	p.Label, p.Path, p.Line, p.Uncertain, p.mark = f.Label, f.Path, f.Line, f.Uncertain, f.Mark()
	if !f.C {
		return p
	}
	stack, _ := m.dict.Stack(e.Stack)
	for range maxWhereFrames {
		if stack == 0 {
			break
		}
		caller, id := m.dict.Stack(stack)
		if f := m.dict.Frame(id); !f.C {
			p.Caller = f.Label
			break
		}
		stack = caller
	}
	return p
}

// FillNative sets the native threads that Ruby does not know, the busiest first.
func (s *Stat) FillNative(list []StatNative) {
	s.NativeThreads = append([]StatNative{}, list...)
	slices.SortStableFunc(s.NativeThreads, func(a, b StatNative) int { return int(min(max(b.CPUNS-a.CPUNS, -1), 1)) })
}
