package run

import (
	"time"

	"github.com/ddtop/ddtop/export/profile"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/sampler"
)

// cutPatience is how much longer than planned a period can be, in ns. A period should end at a sample that can also be
// the first one of the next period (see Feed). After its planned end, the period waits for such a sample, but not
// longer than cutPatience.
const cutPatience = int64(time.Second)

// keepBeside is the least time for which the names of threads and frames stay in memory, in ns. Findings and captures
// about the past need these names.
const keepBeside = int64(4 * time.Minute)

// periods divides the samples of a process into consecutive periods without gaps. In each period it sums up the time of
// each stack. The last sample of a period is also the first of the next one.
type periods struct {
	src      sampler.Source
	needs    Needs
	lengthNS int64
	class    *gvl.Classifier
	keeper   *sampler.Keeper
	ended    *account.EndedCounts
	// The function done is called at the end of each period with its result m. The parameter ended is how many requests
	// and jobs ended in the period, by route or class. The function must not block.
	done func(m profile.Measured, ended map[string]int64)
	// The function Also is called at the start of each period. It returns one more consumer for the intervals of this
	// period. The field is nil if no more consumer is needed.
	Also func() gvl.Consumer
	// The function Beside is called with each sample and the states of its threads, in all periods. It may be nil.
	Beside func(*sampler.Sample, []gvl.ThreadState)

	now            *weighing
	fromNS, lastNS int64
	untilNS        int64
}

// NewPeriods returns periods of the given length. firstly is the length of the first period, which is shorter.
func NewPeriods(src sampler.Source, of Needs, length, firstly time.Duration, done func(profile.Measured, map[string]int64)) *periods {
	return &periods{
		src: src, needs: of, lengthNS: int64(length), done: done, untilNS: int64(firstly),
		class: gvl.NewClassifier(src.Process(), src.Dictionary()),
		ended: account.NewEndedCounts(src.Dictionary()),
		// Names are kept for two periods and a minute, because one period may still be written while the next one is
		// measured. They are kept for at least keepBeside, because Beside needs them.
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
	// If the period ended here, this sample would belong to two periods. Its stacks and allocations would count twice.
	// So the period continues until a sample has neither.
	if over < 0 || over < cutPatience && (s.Depth == sampler.StackTick || s.GC.Pair.Thread != 0) {
		return nil
	}
	p.Finish()
	for p.untilNS <= s.TimeNS { // several periods have passed without a sample
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

// Finish ends the current period. It does nothing if the period has no length.
func (p *periods) Finish() {
	if p.now == nil || p.lastNS == p.fromNS {
		return
	}
	m := p.now.finish()
	m.Weights.FromNS, m.Weights.ToNS = p.fromNS, p.lastNS
	p.now = nil
	p.done(m, p.ended.Take())
}
