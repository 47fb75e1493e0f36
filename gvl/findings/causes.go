package findings

import "slices"

// A cause is a rule whose finding can explain the finding of another rule (the symptom).
type cause struct {
	by string
	// least is a factor. The cause explains the symptom only if its share of busy time is at least this factor times
	// the symptom's share. Zero means that any share is enough.
	least float64
	// shared is set if the cause's finding must name the symptom's first thread, or the same peer as the symptom.
	shared bool
	// If the field own is set, the process itself must use at least half of the CPUs that it may use (ownCPU). If the
	// field others is set, it must not.
	own, others bool
}

// causes has the possible causes of each symptom, by the names of their rules.
var causes = map[string][]cause{
	// If memory is short, a thread keeps the GVL for a long time, because it sleeps while a page is read from the disk.
	"gvl_stuck": {{by: "memory_stall", least: .5}},
	// A process that grows uses up the memory, and its collector marks more objects each time.
	"memory_stall": {{by: "memory_grows"}},
	"gc_pause":     {{by: "memory_grows", least: .5}},
	"gc_pressure":  {{by: "memory_grows", least: .5}},
	"gc_majors":    {{by: "memory_grows", least: .5}},
	// Code that computes endlessly takes a CPU all the time, however many CPUs there are.
	ruleStarved: {
		{by: "regex_runaway", least: .25}, {by: ruleSpins, least: .25}, {by: ruleLoopBlocked, least: .25},
		{by: "gvl_hog", own: true}, {by: "gvl_saturated", own: true},
	},
	// If threads lack a CPU, each hold of the GVL takes longer.
	"gvl_hog": {{by: ruleStarved, others: true}},
	"gvl_saturated": {
		{by: ruleStarved, others: true}, {by: "memory_stall", least: .2}, {by: "gc_pause", least: .2}, {by: "gc_pressure", least: .2}, {by: "gc_majors", least: .2},
		{by: "regex_runaway", least: .5}, {by: ruleSpins, least: .5}, {by: "gvl_hog", least: .5},
	},
	// If the thread with a connection waits for something else, it returns the connection late.
	"pool_wait": {
		{by: ruleStarved, least: .5}, {by: "lock_starved", least: .25}, {by: "lock_convoy", least: .25}, {by: "gvl_hog", least: .5}, {by: "dns_slow", least: .25},
		{by: "child_wait", least: .25}, {by: "sleep_wait", least: .25}, {by: "thread_wait", least: .25}, {by: "redis_slow", least: .25}, {by: "db_slow", least: .25},
		{by: "http_slow", least: .25}, {by: "gvl_saturated", least: .5},
	},
	"stuck_thread": {
		{by: ruleEnding, shared: true}, {by: ruleLoopBlocked, shared: true},
		{by: "lock_starved", shared: true}, {by: "lock_convoy", shared: true}, {by: "dns_slow", shared: true}, {by: "child_wait", shared: true},
		{by: "redis_slow", shared: true}, {by: "db_slow", shared: true}, {by: "http_slow", shared: true},
	},
	ruleQueueGrows: {{by: ruleStarved}},
	"io_busy": {
		{by: ruleStarved}, {by: "dns_slow", shared: true}, {by: "redis_slow", shared: true}, {by: "db_slow", shared: true}, {by: "http_slow", shared: true},
	},
	"all_busy": {{by: ruleStarved}},
}

// explains reports whether f is a cause of the finding symptom. Both must be active.
func (f *Finding) explains(symptom *Finding) bool {
	if f.UntilNS != 0 || symptom.UntilNS != 0 {
		return false
	}
	return slices.ContainsFunc(causes[symptom.ID], func(c cause) bool {
		own := f.ownCPU || symptom.ownCPU
		return c.by == f.ID && f.steady >= c.least*symptom.steady && (!c.shared || f.shares(symptom)) &&
			(own || !c.own) && !(own && c.others)
	})
}

// shares reports whether f names the first thread of symptom, or the same peer as symptom.
func (f *Finding) shares(symptom *Finding) bool {
	return f.Peer != 0 && f.Peer == symptom.Peer || len(symptom.Threads) > 0 && slices.Contains(f.Threads, symptom.Threads[0])
}

// causesFirst moves the causes of a finding to the places before it, and otherwise keeps the order. If a symptom is
// more severe than its cause, the cause is shown with the severity of the symptom.
func causesFirst(list []Finding) []Finding {
	out, placed := make([]Finding, 0, len(list)), make([]bool, len(list))
	var place func(i int)
	place = func(i int) {
		if placed[i] {
			return
		}
		placed[i] = true
		for j := range list {
			if list[j].explains(&list[i]) {
				place(j)
			}
		}
		out = append(out, list[i])
	}
	for i := range list {
		place(i)
	}
	for i := len(out) - 1; i >= 0; i-- {
		for j := range i {
			if out[j].explains(&out[i]) {
				out[j].Severity = max(out[j].Severity, out[i].Severity)
			}
		}
	}
	return out
}
