package run

import (
	"time"

	"github.com/ddtop/ddtop/export/profile"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/sampler"
)

// cutPatience is how long after its end a period waits for a sample at which nothing is counted by sample.
const cutPatience = int64(time.Second)

// keepBeside is how long names are kept at least, in ns: for the past of findings, and for captures.
const keepBeside = int64(4 * time.Minute)

// periods cuts the samples of a process into consecutive weighings without gaps. The last sample of one is the first
// of the next.
type periods struct {
	src      sampler.Source
	needs    Needs
	lengthNS int64
	class    *gvl.Classifier
	keeper   *sampler.Keeper
	ended    *account.EndedCounts
	// done is called with each period, and how many requests and jobs ended in it by route or class, not to wait in.
	done func(m profile.Measured, ended map[string]int64)
	// Also returns a further consumer of a period's intervals. It is nil if there is none.
	Also func() gvl.Consumer
	// Beside is called with each sample and its states, across periods. It is nil if there is nothing beside.
	Beside func(*sampler.Sample, []gvl.ThreadState)

	now            *weighing
	fromNS, lastNS int64
	untilNS        int64
}

// NewPeriods cuts into periods of a length. The first one is shorter and ends after firstly.
func NewPeriods(src sampler.Source, of Needs, length, firstly time.Duration, done func(profile.Measured, map[string]int64)) *periods {
	return &periods{
		src: src, needs: of, lengthNS: int64(length), done: done, untilNS: int64(firstly),
		class: gvl.NewClassifier(src.Process(), src.Dictionary()),
		ended: account.NewEndedCounts(src.Dictionary()),
		// The period that was ended last may still be written out. What is beside needs names for keepBeside.
		keeper: sampler.NewKeeper(src.Dictionary(), max(2*int64(length)+int64(time.Minute), keepBeside)),
	}
}

// Feed adds the next sample.
func (p *periods) Feed(s *sampler.Sample) error {
	p.keeper.Feed(s, false)
	states := p.class.Classify(s)
	p.ended.Feed(s)
	if p.Beside != nil {
		p.Beside(s, states)
	}
	if p.now == nil {
		p.untilNS += s.TimeNS
		return p.begin(s, states)
	}
	p.now.feed(s, states)
	p.lastNS = s.TimeNS
	over := s.TimeNS - p.untilNS
	// What a stack tick counts, and an allocation's pair, would count in both.
	if over < 0 || over < cutPatience && (s.Depth == sampler.StackTick || s.GC.Pair.Thread != 0) {
		return nil
	}
	p.Finish()
	for p.untilNS <= s.TimeNS { // several periods have passed while no sample could be read
		p.untilNS += p.lengthNS
	}
	return p.begin(s, states)
}

func (p *periods) begin(s *sampler.Sample, states []gvl.ThreadState) (err error) {
	if p.now, err = newWeighing(p.src, p.needs); err != nil {
		return err
	}
	if p.Also != nil {
		p.now.stream.Attach(p.Also())
	}
	p.fromNS, p.lastNS = s.TimeNS, s.TimeNS
	p.now.feed(s, states)
	return nil
}

// Finish ends the current period, if it has any length.
func (p *periods) Finish() {
	if p.now == nil || p.lastNS == p.fromNS {
		return
	}
	m := p.now.finish()
	m.Weights.FromNS, m.Weights.ToNS = p.fromNS, p.lastNS
	p.now = nil
	p.done(m, p.ended.Take())
}
