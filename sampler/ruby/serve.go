package ruby

import (
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/work"
)

// planWork adds what said for whom a thread works to the tick's call, behind its stack.
func (r *Reader) planWork(t *thread) {
	n := len(r.plan.ranges)
	if ranges := t.work.Plan(r.plan.ranges); len(ranges) > n {
		r.plan.begin(forWork, t)
		r.plan.ranges = ranges
	}
}

// findWork finds for whom the threads work whose stacks this tick has read. What is known of the others is as old as their stacks.
func (r *Reader) findWork(nowNS, sinceNS int64) {
	for _, t := range r.read {
		st := &t.stack
		if st.quality&sampler.StackFresh == 0 {
			continue
		}
		if st.quality&sampler.StackFailed != 0 || len(st.kept) == 0 || r.over() {
			t.work.Lost()
			continue
		}
		frames := work.Frames{EC: st.keptEC, InnermostAt: st.keptEC + ecCFP, CFP: st.cfp, End: st.keptEnd, Raw: st.kept, Size: r.o.code.FrameSize,
			Partial: st.quality&sampler.StackPartial != 0, NowNS: nowNS, SinceNS: sinceNS}
		calls, err := r.finder.Look(&t.work, &frames)
		r.reads.Calls += uint64(calls)
		r.budget.spent = true
		if err != nil {
			return // the next tick will say so
		}
	}
}
