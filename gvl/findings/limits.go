package findings

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/findings/internal/threshold"
)

// limits are the thresholds of all rules: shares from 0 to 1, times in ns, and numbers. docs/reference/findings.md
// explains where their defaults come from.
type limits struct {
	frozenTime                                                              float64
	deadlockAge                                                             float64
	nobodyHoldsWaiters                                                      float64
	stuckHold, stuckAsleep, stuckSum                                        float64
	logWrite                                                                float64
	endingWait                                                              float64
	unbootedFork, unbootedHook                                              float64
	memoryFaults, memoryAsleep, memoryPressure                              float64
	growsTime, growsBy, growsMiB, growsMajors                               float64
	starvedDelay, starvedDelayCrit, starvedTurns                            float64
	throttled, throttledCrit                                                float64
	regexMatch                                                              float64
	spinTime, spinWakes, spinCPU                                            float64
	lostTime                                                                float64
	loopTime, loopFibers, loopShare                                         float64
	barrierTime                                                             float64
	queueTime, queueItems                                                   float64
	starveWait, starveShare, starveVain                                     float64
	loadWait                                                                float64
	convoyWaiters, convoyShare, convoyMean                                  float64
	poolWait, poolShare, poolWaiting                                        float64
	gcPause, gcFull, gcMark                                                 float64
	gcOfHeld, gcOfWall                                                      float64
	gcMajors, gcMajorsWaiters                                               float64
	hogBlame, hogLead, hogHeld, hogWait, hogLost                            float64
	dnsWait, dnsSum                                                         float64
	childWait, childThreads, childShare, childMean                          float64
	sleepShare, sleepThreads, sleepLength                                   float64
	parkShare, parkThreads                                                  float64
	redisShare, redisThreads, redisCall                                     float64
	dbShare, dbThreads, dbCall                                              float64
	httpShare, httpThreads, httpCall, httpWait, httpWaiting                 float64
	fullHeld, fullHeldLost, fullHeldCrit, fullWaiters, fullLost, fullLostCr float64
	ioShare, ioThreads                                                      float64
	stuckThread, stuckThreadCrit                                            float64
	leakFactor, leakGrowth, leakSameRoot                                    float64
	poolBusy                                                                float64
}

// These are the units of thresholds. The unit decides how users write a threshold: as a number, "60%" or "80ms".
const unitNumber, unitShare, unitTime = threshold.Number, threshold.Share, threshold.Time

// limitSpec describes one threshold: its rule, name, unit and default value. It also has a function that returns the
// threshold's field in limits.
type limitSpec struct {
	rule, name string
	unit       threshold.Unit
	value      float64
	at         func(*limits) *float64
}

// limitFor is the name of a threshold that every rule has: how long its condition must last to raise a finding.
const limitFor = "for"

// limitSpecs lists all thresholds except limitFor, in the order of rules.
var limitSpecs = [...]limitSpec{
	{"frozen", "time", unitTime, 1e9, func(l *limits) *float64 { return &l.frozenTime }},
	{"deadlock", "age", unitTime, 700e6, func(l *limits) *float64 { return &l.deadlockAge }},
	{"lock_nobody_holds", "waiters", unitNumber, 1, func(l *limits) *float64 { return &l.nobodyHoldsWaiters }},
	{"gvl_stuck", "hold", unitTime, 150e6, func(l *limits) *float64 { return &l.stuckHold }},
	{"gvl_stuck", "asleep", unitTime, 20e6, func(l *limits) *float64 { return &l.stuckAsleep }},
	{"gvl_stuck", "sum", unitTime, 300e6, func(l *limits) *float64 { return &l.stuckSum }},
	{"log_blocked", "write", unitTime, 500e6, func(l *limits) *float64 { return &l.logWrite }},
	{"ending", "wait", unitTime, 3e9, func(l *limits) *float64 { return &l.endingWait }},
	{"never_booted", "fork", unitTime, 3e9, func(l *limits) *float64 { return &l.unbootedFork }},
	{"never_booted", "hook", unitTime, 10e9, func(l *limits) *float64 { return &l.unbootedHook }},
	{"memory_stall", "faults", unitNumber, 50, func(l *limits) *float64 { return &l.memoryFaults }},
	{"memory_stall", "asleep", unitShare, .02, func(l *limits) *float64 { return &l.memoryAsleep }},
	{"memory_stall", "pressure", unitShare, .05, func(l *limits) *float64 { return &l.memoryPressure }},
	{"memory_grows", "time", unitTime, 15e9, func(l *limits) *float64 { return &l.growsTime }},
	{"memory_grows", "growth", unitShare, .50, func(l *limits) *float64 { return &l.growsBy }},
	{"memory_grows", "mib", unitNumber, 64, func(l *limits) *float64 { return &l.growsMiB }},
	{"memory_grows", "majors", unitNumber, 2, func(l *limits) *float64 { return &l.growsMajors }},
	{"cpu_starved", "delay", unitShare, .10, func(l *limits) *float64 { return &l.starvedDelay }},
	{"cpu_starved", "delay_crit", unitShare, .25, func(l *limits) *float64 { return &l.starvedDelayCrit }},
	{"cpu_starved", "turns", unitShare, .10, func(l *limits) *float64 { return &l.starvedTurns }},
	{"cpu_starved", "throttled", unitShare, .40, func(l *limits) *float64 { return &l.throttled }},
	{"cpu_starved", "throttled_crit", unitShare, .50, func(l *limits) *float64 { return &l.throttledCrit }},
	{"regex_runaway", "match", unitTime, 1e9, func(l *limits) *float64 { return &l.regexMatch }},
	{"spinning", "time", unitTime, 5e9, func(l *limits) *float64 { return &l.spinTime }},
	{"spinning", "wakeups", unitNumber, 1000, func(l *limits) *float64 { return &l.spinWakes }},
	{"spinning", "cpu", unitShare, .80, func(l *limits) *float64 { return &l.spinCPU }},
	{"lost_wakeup", "time", unitTime, 2e9, func(l *limits) *float64 { return &l.lostTime }},
	{"loop_blocked", "time", unitTime, 1e9, func(l *limits) *float64 { return &l.loopTime }},
	{"loop_blocked", "fibers", unitNumber, 1, func(l *limits) *float64 { return &l.loopFibers }},
	{"loop_blocked", "share", unitShare, .50, func(l *limits) *float64 { return &l.loopShare }},
	{"barrier_stuck", "time", unitTime, 1e9, func(l *limits) *float64 { return &l.barrierTime }},
	{"queue_grows", "time", unitTime, 20e9, func(l *limits) *float64 { return &l.queueTime }},
	{"queue_grows", "items", unitNumber, 20, func(l *limits) *float64 { return &l.queueItems }},
	{"lock_starved", "wait", unitTime, 2e9, func(l *limits) *float64 { return &l.starveWait }},
	{"lock_starved", "share", unitShare, .90, func(l *limits) *float64 { return &l.starveShare }},
	{"lock_starved", "vain", unitNumber, 10, func(l *limits) *float64 { return &l.starveVain }},
	{"load_wait", "wait", unitTime, 3e9, func(l *limits) *float64 { return &l.loadWait }},
	{"lock_convoy", "waiters", unitNumber, 3, func(l *limits) *float64 { return &l.convoyWaiters }},
	{"lock_convoy", "share", unitShare, .20, func(l *limits) *float64 { return &l.convoyShare }},
	{"lock_convoy", "mean", unitNumber, 1, func(l *limits) *float64 { return &l.convoyMean }},
	{"pool_wait", "wait", unitTime, 1e9, func(l *limits) *float64 { return &l.poolWait }},
	{"pool_wait", "share", unitShare, .25, func(l *limits) *float64 { return &l.poolShare }},
	{"pool_wait", "waiting", unitNumber, 2, func(l *limits) *float64 { return &l.poolWaiting }},
	{"gc_pause", "pause", unitTime, 1e9, func(l *limits) *float64 { return &l.gcPause }},
	{"gc_pause", "full", unitTime, 300e6, func(l *limits) *float64 { return &l.gcFull }},
	{"gc_pause", "mark", unitTime, 200e6, func(l *limits) *float64 { return &l.gcMark }},
	{"gc_pressure", "of_held", unitShare, .20, func(l *limits) *float64 { return &l.gcOfHeld }},
	{"gc_pressure", "of_wall", unitShare, .10, func(l *limits) *float64 { return &l.gcOfWall }},
	{"gc_majors", "majors", unitNumber, 2, func(l *limits) *float64 { return &l.gcMajors }},
	{"gc_majors", "waiters", unitNumber, 1, func(l *limits) *float64 { return &l.gcMajorsWaiters }},
	{"gvl_hog", "blame", unitShare, .50, func(l *limits) *float64 { return &l.hogBlame }},
	{"gvl_hog", "lead", unitNumber, 1.5, func(l *limits) *float64 { return &l.hogLead }},
	{"gvl_hog", "held", unitShare, .10, func(l *limits) *float64 { return &l.hogHeld }},
	{"gvl_hog", "wait", unitTime, .8 * gvl.TimeSliceNS, func(l *limits) *float64 { return &l.hogWait }},
	{"gvl_hog", "lost", unitShare, .10, func(l *limits) *float64 { return &l.hogLost }},
	{"dns_slow", "wait", unitTime, 1e9, func(l *limits) *float64 { return &l.dnsWait }},
	{"dns_slow", "sum", unitTime, 3e9, func(l *limits) *float64 { return &l.dnsSum }},
	{"child_wait", "wait", unitTime, 5e9, func(l *limits) *float64 { return &l.childWait }},
	{"child_wait", "threads", unitNumber, 2, func(l *limits) *float64 { return &l.childThreads }},
	{"child_wait", "share", unitShare, .30, func(l *limits) *float64 { return &l.childShare }},
	{"child_wait", "mean", unitNumber, 1.5, func(l *limits) *float64 { return &l.childMean }},
	{"sleep_wait", "share", unitShare, .30, func(l *limits) *float64 { return &l.sleepShare }},
	{"sleep_wait", "threads", unitNumber, 1.5, func(l *limits) *float64 { return &l.sleepThreads }},
	{"sleep_wait", "length", unitTime, 100e6, func(l *limits) *float64 { return &l.sleepLength }},
	{"thread_wait", "share", unitShare, .30, func(l *limits) *float64 { return &l.parkShare }},
	{"thread_wait", "threads", unitNumber, 1.5, func(l *limits) *float64 { return &l.parkThreads }},
	{"redis_slow", "share", unitShare, .20, func(l *limits) *float64 { return &l.redisShare }},
	{"redis_slow", "threads", unitNumber, .5, func(l *limits) *float64 { return &l.redisThreads }},
	{"redis_slow", "call", unitTime, 50e6, func(l *limits) *float64 { return &l.redisCall }},
	{"db_slow", "share", unitShare, .50, func(l *limits) *float64 { return &l.dbShare }},
	{"db_slow", "threads", unitNumber, 2, func(l *limits) *float64 { return &l.dbThreads }},
	{"db_slow", "call", unitTime, 100e6, func(l *limits) *float64 { return &l.dbCall }},
	{"http_slow", "share", unitShare, .30, func(l *limits) *float64 { return &l.httpShare }},
	{"http_slow", "threads", unitNumber, 1.5, func(l *limits) *float64 { return &l.httpThreads }},
	{"http_slow", "call", unitTime, 100e6, func(l *limits) *float64 { return &l.httpCall }},
	{"http_slow", "wait", unitTime, 5e9, func(l *limits) *float64 { return &l.httpWait }},
	{"http_slow", "waiting", unitNumber, 2, func(l *limits) *float64 { return &l.httpWaiting }},
	{"gvl_saturated", "held", unitShare, .85, func(l *limits) *float64 { return &l.fullHeld }},
	{"gvl_saturated", "held_lost", unitShare, .70, func(l *limits) *float64 { return &l.fullHeldLost }},
	{"gvl_saturated", "held_crit", unitShare, .95, func(l *limits) *float64 { return &l.fullHeldCrit }},
	{"gvl_saturated", "waiters", unitNumber, 1, func(l *limits) *float64 { return &l.fullWaiters }},
	{"gvl_saturated", "lost", unitShare, .30, func(l *limits) *float64 { return &l.fullLost }},
	{"gvl_saturated", "lost_crit", unitShare, .50, func(l *limits) *float64 { return &l.fullLostCr }},
	{"io_busy", "share", unitShare, .50, func(l *limits) *float64 { return &l.ioShare }},
	{"io_busy", "threads", unitNumber, 1.5, func(l *limits) *float64 { return &l.ioThreads }},
	{"stuck_thread", "unchanged", unitTime, 15e9, func(l *limits) *float64 { return &l.stuckThread }},
	{"stuck_thread", "unchanged_crit", unitTime, 60e9, func(l *limits) *float64 { return &l.stuckThreadCrit }},
	{"thread_leak", "factor", unitNumber, 2, func(l *limits) *float64 { return &l.leakFactor }},
	{"thread_leak", "growth", unitNumber, 50, func(l *limits) *float64 { return &l.leakGrowth }},
	{"thread_leak", "same_root", unitShare, .80, func(l *limits) *float64 { return &l.leakSameRoot }},
	{"all_busy", "busy", unitShare, .85, func(l *limits) *float64 { return &l.poolBusy }},
}

// Rules has the thresholds of all rules (docs/reference/findings.md). Each threshold can be changed, and each rule can
// be turned off. After it was passed to New, a Rules must not be changed.
type Rules struct {
	limits limits
	off    [len(rules)]bool
	// raise is how long the condition of each rule must last, in ns.
	raise [len(rules)]int64
}

// NewRules returns the rules with their defaults.
func NewRules() *Rules {
	r := new(Rules)
	for i := range limitSpecs {
		*limitSpecs[i].at(&r.limits) = limitSpecs[i].value
	}
	for i := range rules {
		r.raise[i] = rules[i].raise
	}
	return r
}

// Set changes one rule: "gvl_hog=off" turns it off, "gvl_hog=on" on, "gvl_hog.blame=60%" changes a threshold. A share
// is written 60% or 0.6, a time 80ms or 1.5s (a bare number is in seconds). Values must be above 0. The error lists the
// valid names.
func (r *Rules) Set(text string) error {
	key, value, ok := strings.Cut(text, "=")
	if !ok {
		return fmt.Errorf("%q is neither RULE=off nor RULE.LIMIT=VALUE", text)
	}
	id, name, dotted := strings.Cut(key, ".")
	i := slices.IndexFunc(rules[:], func(x rule) bool { return x.id == id })
	if i < 0 {
		return fmt.Errorf("there is no finding %q: there are %s", id, strings.Join(RuleIDs(), ", "))
	}
	if !dotted {
		switch value {
		case "off":
			r.off[i] = true
		case "on":
			r.off[i] = false
		default:
			return fmt.Errorf("%s can be on or off, not %q; its limits are %s", id, value, strings.Join(limitNames(id), ", "))
		}
		return nil
	}
	if name == limitFor {
		v, err := unitTime.Parse(value)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		r.raise[i] = int64(v)
		return nil
	}
	for j := range limitSpecs {
		if s := &limitSpecs[j]; s.rule == id && s.name == name {
			v, err := s.unit.Parse(value)
			if err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
			*s.at(&r.limits) = v
			return nil
		}
	}
	return fmt.Errorf("%s has no limit %q: it has %s", id, name, strings.Join(limitNames(id), ", "))
}

// RuleIDs returns the names of all findings, causes before symptoms.
func RuleIDs() []string {
	out := make([]string, 0, len(rules))
	for i := range rules {
		out = append(out, rules[i].id)
	}
	return out
}

// Limit is a threshold of a rule in the form that users write: "gvl_hog.blame", "50 %".
type Limit struct{ Name, Value string }

// Limits returns the thresholds of a rule, or nil if there is no such rule.
func (r *Rules) Limits(id string) []Limit {
	var out []Limit
	for i := range limitSpecs {
		if s := &limitSpecs[i]; s.rule == id {
			out = append(out, Limit{s.rule + "." + s.name, s.unit.Format(*s.at(&r.limits))})
		}
	}
	for i := range rules {
		if rules[i].id == id {
			out = append(out, Limit{id + "." + limitFor, unitTime.Format(float64(r.raise[i]))})
		}
	}
	return out
}

func limitNames(id string) []string {
	var out []string
	for i := range limitSpecs {
		if limitSpecs[i].rule == id {
			out = append(out, limitSpecs[i].name)
		}
	}
	return append(out, limitFor)
}

// MaxLimitTime is the largest value, in ns, of a threshold that is a time: a day.
const MaxLimitTime = threshold.MaxTime

// CauseAgoNS returns the longest time, in ns, from the beginning of a cause until the condition of the finding with
// this ID becomes true. It is the length of the rule's window, or the rule's longest threshold in time if this is
// longer.
func (r *Rules) CauseAgoNS(id string) int64 {
	ago := float64(findingsWindowNS)
	for i := range limitSpecs {
		if s := &limitSpecs[i]; s.rule == id && s.unit == unitTime && !strings.HasSuffix(s.name, "_crit") {
			ago = max(ago, *s.at(&r.limits))
		}
	}
	return int64(ago)
}

// RaiseNS returns how long a rule's condition must last before the finding is raised, in ns.
func (r *Rules) RaiseNS(id string) int64 {
	return r.raise[slices.IndexFunc(rules[:], func(x rule) bool { return x.id == id })]
}
