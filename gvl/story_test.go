package gvl

import "github.com/ddtop/ddtop/sampler"

// folded is a Stream with what adds its intervals up.
type folded struct {
	Account  *Account
	Blame    *Blame
	Requests *Requests
	Sample   *sampler.Sample
	class    *Classifier
	stream   *Stream
}

func newFolded(p sampler.Process, dict *sampler.Dictionary) *folded {
	s := NewStream(p)
	return &folded{
		Account: NewAccount(s, p, dict), Blame: newBlame(s, dict), Requests: NewRequests(s, dict, MaxBlameWindowNS),
		class: NewClassifier(p, dict), stream: s,
	}
}

// Feed adds one sample.
func (f *folded) Feed(s *sampler.Sample) {
	f.stream.Feed(s, f.class.Classify(s))
	f.Sample = s
}

// requests is what stat has of requests.
func (f *folded) requests() StatRequests {
	return f.Requests.Stat(f.Blame.top(0, blameByStack, 0).TotalNS, nil)
}
