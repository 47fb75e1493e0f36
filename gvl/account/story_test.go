package account

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// folded is a Stream with the consumers that add up its intervals.
type folded struct {
	Account  *Account
	Blame    *Blame
	Requests *Requests
	Sample   *sampler.Sample
	class    *gvl.Classifier
	stream   *stream.Stream
}

func newFolded(p sampler.Process, dict *sampler.Dictionary) *folded {
	s := stream.New(p)
	return &folded{
		Account: New(s, p, dict), Blame: NewBlame(s, dict), Requests: NewRequests(s, dict, MaxBlameWindowNS),
		class: gvl.NewClassifier(p, dict), stream: s,
	}
}

// Feed adds one sample.
func (f *folded) Feed(s *sampler.Sample) {
	f.stream.Feed(s, f.class.Classify(s))
	f.Sample = s
}

// requests returns the part of stat's report that is about requests.
func (f *folded) requests() report.StatRequests {
	return f.Requests.Stat(f.Blame.Top(0, ByStack, 0).TotalNS, nil)
}
