package scene

import (
	"strings"

	"github.com/ddtop/ddtop/sampler"
)

// serverClasses are parts of the names of methods that servers and job runners run their threads in. Read-only.
var serverClasses = []string{"Puma::", "Unicorn::", "Pitchfork::", "WEBrick::", "Falcon::", "Async::HTTP::Server", "Thin::", "PhusionPassenger::",
	"Iodine", "Agoo", "Sidekiq::", "Resque::", "Delayed::Worker", "GoodJob::", "SolidQueue::", "Que::", "Shoryuken::", "Karafka::"}

const (
	// serverEachNS is how often threads are looked at for such a one until one is met, in ns.
	serverEachNS = int64(1e9)
	// maxServerThreads and maxServerFrames bound how many are looked at.
	maxServerThreads, maxServerFrames = 100, 100
)

// serverSeen says whether a process is a server or a job runner: then it has requests to show, also while it is idle.
type serverSeen struct {
	Met      bool
	lookedNS int64
}

// look looks at the stacks of a sample, at most once a second.
func (s *serverSeen) look(dict *sampler.Dictionary, m *sampler.Sample) {
	if s.Met || s.lookedNS != 0 && m.TimeNS-s.lookedNS < serverEachNS && m.TimeNS >= s.lookedNS {
		return
	}
	s.lookedNS = m.TimeNS
	for i := range m.Threads[:min(len(m.Threads), maxServerThreads)] {
		stack := m.Threads[i].Stack
		for depth := 0; stack != 0 && depth < maxServerFrames; depth++ {
			caller, frame := dict.Stack(stack)
			if s.Met = ofServer(dict.Frame(frame).Label); s.Met {
				return
			}
			stack = caller
		}
	}
}

func ofServer(label string) bool {
	_, method, ok := strings.Cut(label, " in ")
	if !ok {
		method = label
	}
	for _, class := range serverClasses {
		if strings.HasPrefix(method, class) {
			return true
		}
	}
	return false
}
