package measure

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/gvl/capacity"
	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// Measure computes everything that `ddtop stat` prints from samples. It is not safe for concurrent use.
type Measure struct {
	program  string
	dict     *sampler.Dictionary
	class    *gvl.Classifier
	stream   *stream.Stream
	account  *account.Account
	blame    *account.Blame
	findings *findings.Findings
	requests *account.Requests
	native   nativeWaits
}

// New returns a Measure for the target p. The IDs in the samples that it will get point into dict. If r is nil, the
// rules for findings have their default thresholds.
func New(p sampler.Process, dict *sampler.Dictionary, r *findings.Rules) *Measure {
	stream := stream.New(p)
	blame, requests := account.NewBlame(stream, dict), account.NewRequests(stream, dict, account.MaxBlameWindowNS)
	return &Measure{
		program: p.Title,
		dict:    dict,
		class:   gvl.NewClassifier(p, dict), stream: stream, account: account.New(stream, p, dict), blame: blame,
		findings: findings.New(stream, p, dict, blame, requests, r), requests: requests,
	}
}

// Resting returns the findings.Resting of this Measure. Other consumers of the stream use it to distinguish threads at
// work from threads at rest.
func (m *Measure) Resting() *findings.Resting { return m.findings.Resting() }

// Stream returns the Measure's stream. More consumers can be attached to it before the first sample.
func (m *Measure) Stream() *stream.Stream { return m.stream }

// LongestRequests returns the n longest requests (Requests.Longest).
func (m *Measure) LongestRequests(n int) []account.Request { return m.requests.Longest(n) }

// Requests returns the requests and jobs of the endpoints for which match is true. If match is nil, it returns all.
func (m *Measure) Requests(match func(endpoint string) bool) report.StatRequests {
	return m.requests.Stat(m.blame.Top(0, account.ByStack, 0).TotalNS, match)
}

// Feed adds one sample and returns its states, which are valid until the next Feed. Samples must come in order of
// time. Feed usually allocates nothing.
func (m *Measure) Feed(s *sampler.Sample) []gvl.ThreadState {
	states := m.class.Classify(s)
	m.stream.Feed(s, states)
	m.native.feed(s, states, m.dict)
	return states
}

// Classify returns the states of a sample, but does not add them to the totals. It is for samples that are taken after
// the measurement has ended.
func (m *Measure) Classify(s *sampler.Sample) []gvl.ThreadState { return m.class.Classify(s) }

// Alloc returns what was allocated so far, by class.
func (m *Measure) Alloc() report.StatAlloc { return m.account.Alloc() }

// PlanTogether chooses the advice for the findings of several processes, so that no advice contradicts another.
// found[i] must be the result of all[i].Findings. PlanTogether writes the advice into it.
func PlanTogether(all []*Measure, found [][]report.StatFinding) {
	told := make([]findings.Told, len(all))
	for i, m := range all {
		told[i] = findings.Told{Program: m.program, List: m.findings.Raised()}
	}
	findings.PlanTogether(told...)
	for i, t := range told {
		for k := range t.List {
			found[i][k].Next = t.List[k].Next
		}
	}
}

// Findings returns the findings of the stream. See Findings.Raised.
func (m *Measure) Findings() []report.StatFinding {
	out := []report.StatFinding{}
	for _, f := range m.findings.Raised() {
		s := report.StatFinding{
			ID: f.ID, Severity: f.Severity.String(), Title: f.Title, Text: f.Text, Next: f.Next, SinceNS: f.SinceNS,
			Threads: append([]sampler.ThreadID{}, f.Threads...), Endpoint: report.TextOrNil(f.Endpoint), Stack: f.Stack,
			Evidence: report.StatEvidence{Samples: f.Evidence.Samples, Stacks: f.Evidence.Stacks, ApartNS: f.Evidence.ApartNS() / 1e3 * 1e3},
		}
		if f.UntilNS != 0 {
			until, ago := f.UntilNS, f.AgoNS
			s.UntilNS, s.AgoNS = &until, &ago
		}
		out = append(out, s)
	}
	return out
}

// Stat returns the totals so far, with findings, blame and the longest waits. The list of the longest waits leaves out
// waits shorter than waitNS.
func (m *Measure) Stat(waitNS int64) report.Stat {
	s := m.account.Stat()
	s.Findings = m.Findings()
	s.Blame = m.blame.Stat()
	s.Requests = m.Requests(nil)
	s.LongestWaits = m.account.LongestWaits(waitNS)
	m.native.explain(s.Findings)
	s.NativeWaits, s.NativeReads = m.native.stat()
	s.Capacity = capacity.Of(&s)
	s.LeaveOut()
	return s
}
