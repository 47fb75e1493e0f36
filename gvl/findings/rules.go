package findings

import (
	"slices"

	"github.com/ddtop/ddtop/gvl/findings/internal/tips"
	"github.com/ddtop/ddtop/sampler"
)

// rank orders findings. Standstills, in which threads make no progress, come first. Of other findings that are equally
// severe, causes come before symptoms.
type rank uint8

const (
	// rankStandstill is for findings about threads that make no progress at all.
	rankStandstill rank = iota
	rankCause
	// rankSymptom is for findings about symptoms: another rule usually finds their cause.
	rankSymptom
)

// rule describes when one finding is raised and shown.
type rule struct {
	id string
	// raise is how long the condition must last before the finding is raised, in ns.
	raise int64
	// boot is set if the rule also applies during the program's start, which most rules ignore.
	boot bool
	// settled is set if the rule applies only when all of the window is after the program's start.
	settled bool
	// sparse is set if the rule's events are rare. For such a rule, a short window (trailNS) without events does not
	// prove that the condition has ended.
	sparse bool
	rank   rank
	// hiddenBy names the rules that explain this rule's finding. While one of them is raised, the finding is not shown.
	hiddenBy []string
	// needs are the kinds of figures that the rule compares with thresholds. If there are too few samples for one of
	// them, the rule is not evaluated. Rules without needs use single samples over a long time, or counters.
	needs []sampler.Figure
	eval  func(*window) hit
}

// These are the kinds of figures that rules can need (rule.needs).
var (
	needStates = []sampler.Figure{sampler.FigureStates}
	needWaits  = []sampler.Figure{sampler.FigureStates, sampler.FigureWaits}
)

// lacks reports whether there are too few samples for one of the figures that the rule needs.
func (r *rule) lacks(w *window) bool {
	return slices.ContainsFunc(r.needs, func(f sampler.Figure) bool { return w.quality.Lacks(f) != "" })
}

// ruleStarved is the rule for a process that lacks CPU. Its finding changes the advice of other findings.
const ruleStarved = tips.RuleStarved

// rules lists causes before symptoms. If two findings have equal rank, severity and share, this order decides.
var rules = [...]rule{
	{id: ruleFrozen, rank: rankStandstill, boot: true, eval: evalFrozen},
	{id: "deadlock", rank: rankStandstill, boot: true, eval: evalDeadlock},
	{id: "lock_nobody_holds", rank: rankStandstill, raise: raiseSoonNS, boot: true, eval: evalNobodyHolds},
	{id: "gvl_stuck", rank: rankStandstill, eval: evalStuck},
	{id: "log_blocked", rank: rankStandstill, boot: true, eval: evalLogBlocked},
	{id: ruleEnding, rank: rankCause, boot: true, hiddenBy: []string{"deadlock"}, eval: evalEnding},
	{id: ruleNeverBooted, rank: rankCause, boot: true, hiddenBy: []string{"deadlock", "lock_nobody_holds"}, eval: evalNeverBooted},
	{id: "memory_stall", rank: rankCause, raise: raiseNS, eval: evalMemoryStall},
	{id: "memory_grows", rank: rankCause, eval: evalMemoryGrows},
	{id: ruleStarved, rank: rankCause, raise: raiseNS, eval: evalCPUStarved},
	{id: "regex_runaway", rank: rankCause, boot: true, eval: evalRegex},
	{id: ruleSpins, rank: rankCause, boot: true, eval: evalSpins},
	{id: ruleLostWakeup, rank: rankCause, boot: true, eval: evalLostWakeup},
	{id: ruleLoopBlocked, rank: rankCause, boot: true, eval: evalLoopBlocked},
	{id: ruleBarrier, rank: rankCause, boot: true, eval: evalBarrier},
	{id: ruleQueueGrows, rank: rankCause, eval: evalQueueGrows},
	{id: "lock_starved", rank: rankCause, raise: raiseSoonNS, boot: true, hiddenBy: []string{"deadlock", "log_blocked"}, eval: evalStarved},
	{id: "load_wait", rank: rankCause, boot: true, eval: evalLoadWait},
	{id: "lock_convoy", rank: rankCause, raise: raiseSoonNS, boot: true, hiddenBy: []string{"deadlock", "log_blocked", "lock_starved", "load_wait"}, needs: needStates, eval: evalConvoy},
	{id: "pool_wait", rank: rankCause, raise: raiseNS, boot: true, needs: needStates, eval: evalPoolWait},
	{id: "gc_pause", rank: rankCause, boot: true, eval: evalGCPause},
	{id: "gc_pressure", rank: rankCause, raise: raiseNS, settled: true, needs: needStates, eval: evalGCPressure},
	{id: "gc_majors", rank: rankCause, raise: 30e9, sparse: true, needs: needStates, eval: evalGCMajors},
	{id: "gvl_hog", rank: rankCause, raise: raiseNS, boot: true, hiddenBy: []string{"gvl_stuck", "regex_runaway"}, needs: needWaits, eval: evalHog},
	{id: "dns_slow", rank: rankCause, boot: true, raise: raiseNS, eval: evalDNS},
	{id: "child_wait", rank: rankCause, boot: true, eval: evalChild},
	{id: "sleep_wait", rank: rankCause, raise: raiseNS, boot: true, needs: needStates, eval: evalSleep},
	{id: "thread_wait", rank: rankCause, raise: raiseNS, boot: true, hiddenBy: []string{"deadlock", "pool_wait"}, needs: needStates, eval: evalThreadWait},
	{id: "redis_slow", rank: rankCause, raise: raiseNS, boot: true, needs: needStates, eval: evalRedis},
	{id: "db_slow", rank: rankCause, raise: raiseNS, boot: true, needs: needStates, eval: evalDB},
	{id: "http_slow", rank: rankCause, raise: raiseNS, boot: true, needs: needStates, eval: evalHTTP},
	{id: "gvl_saturated", rank: rankSymptom, raise: raiseNS, needs: needStates, eval: evalSaturated},
	{id: "io_busy", rank: rankSymptom, raise: raiseNS, boot: true, hiddenBy: []string{
		"deadlock", "log_blocked", "lock_starved", "load_wait", "lock_convoy", "pool_wait", "dns_slow", "child_wait", "redis_slow", "db_slow", "http_slow",
	}, needs: needStates, eval: evalIOBusy},
	{id: "stuck_thread", rank: rankSymptom, boot: true, hiddenBy: []string{"deadlock", "lock_nobody_holds"}, eval: evalStuckThread},
	{id: "thread_leak", rank: rankSymptom, boot: true, eval: evalThreadLeak},
	{id: "all_busy", rank: rankSymptom, raise: 30e9, needs: needStates, eval: evalAllBusy},
}
