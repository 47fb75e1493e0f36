package findings

import (
	"slices"

	"github.com/ddtop/ddtop/gvl/findings/internal/tenses"
	"github.com/ddtop/ddtop/internal/units"
)

// effect is how advice changes the number of processes and threads.
type effect uint8

// The changes.
const (
	moreProcesses effect = 1 << iota
	fewerProcesses
	moreThreads
	fewerThreads
)

// against returns the effects that contradict c.
func (c effect) against() (x effect) {
	for _, pair := range [...][2]effect{{moreProcesses, fewerProcesses}, {moreThreads, fewerThreads}} {
		if c&pair[0] != 0 {
			x |= pair[1]
		}
		if c&pair[1] != 0 {
			x |= pair[0]
		}
	}
	return x
}

// advice is something to do about a finding.
type advice struct {
	text string
	does effect
	// with names the rule whose finding must explain this one (causes). It is empty if the advice always holds.
	with string
	// below is set if another finding must come before this one, alone if there must be no other active one.
	below, alone bool
}

// leading are the rules whose advice comes first, because they are about a lack of the whole machine.
var leading = []string{ruleStarved, "memory_stall"}

// Told are the findings of one process among several. Processes with one Program run the same code with the same
// number of threads.
type Told struct {
	Program string
	List    []Finding
}

// plan chooses the advice of the findings of one process.
func plan(list []Finding) { PlanTogether(Told{List: list}) }

// PlanTogether chooses the advice of findings, in their order. No two contradict each other, neither in one process nor
// among the processes of one program. Advice for a lack of the whole machine holds for all programs. A
// finding whose first advice does not fit gets the next one that does. Ended findings come last.
func PlanTogether(all ...Told) {
	var p planned
	for _, t := range all {
		p.todo = append(p.todo, planning{t, make([]bool, len(t.List))})
	}
	p.each(func(f *Finding) bool { return f.UntilNS == 0 && f.leads() })
	p.each(func(f *Finding) bool { return f.UntilNS == 0 })
	p.each(func(*Finding) bool { return true })
}

// planned is a plan in the making.
type planned struct {
	todo []planning
	// of has the effects of the chosen advice by program. machine has what leading rules do, any has all effects.
	of           map[string]effect
	machine, any effect
}

// planning is a process with what is chosen already.
type planning struct {
	Told
	chosen []bool
}

// leads reports whether the finding is about a lack of the whole machine.
func (f *Finding) leads() bool { return slices.Contains(leading, f.ID) }

// each chooses the advice of the wanted findings.
func (p *planned) each(wanted func(f *Finding) bool) {
	for _, t := range p.todo {
		for i := range t.List {
			if !t.chosen[i] && wanted(&t.List[i]) {
				t.chosen[i] = true
				p.choose(&t, i)
			}
		}
	}
}

func (p *planned) choose(t *planning, i int) {
	f, others := &t.List[i], p.of[t.Program]|p.machine
	if f.leads() {
		others = p.any
	}
	for j := range f.advice {
		a := &f.advice[j]
		if a.does&others.against() != 0 || !t.allows(i, a) {
			continue
		}
		f.Next = tenses.Spoken(a.text, f.UntilNS != 0)
		if p.of == nil {
			p.of = make(map[string]effect)
		}
		p.of[t.Program] |= a.does
		p.any |= a.does
		if f.leads() {
			p.machine |= a.does
		}
		return
	}
}

// allows reports whether the conditions of an advice hold for a finding beside the others of its process.
func (t *planning) allows(i int, a *advice) bool {
	f, now := &t.List[i], 0 // now is the number of active findings
	for k := range t.List {
		if t.List[k].UntilNS == 0 {
			now++
		}
	}
	explained := func(x Finding) bool { return x.ID == a.with && x.explains(f) }
	over := f.UntilNS != 0
	return (a.with == "" || slices.ContainsFunc(t.List, explained)) && !(a.below && (i == 0 || over)) &&
		!(a.alone && (over || now > 1))
}

// advise sets the advice, the first choice first. The last must always fit.
func (h *hit) advise(list ...advice) { h.advice = list }

// advices are all advice of the hit.
func (h *hit) advices() []advice {
	if len(h.advice) == 0 {
		return []advice{{text: h.next}}
	}
	return h.advice
}

// The advice that changes the number of processes or threads, with what fits if that does not.

func starvedAdvice() []advice {
	return []advice{
		{text: "fewer workers on this machine, or more CPUs", does: fewerProcesses | fewerThreads},
		{text: "see what else uses the machine's CPUs"},
	}
}

// takenAdvice is starvedAdvice if the finding names the processes that take the CPUs.
func takenAdvice() []advice {
	return []advice{
		{text: "limit what takes the CPUs (nice, a cgroup), fewer workers on this machine, or more CPUs", does: fewerProcesses | fewerThreads},
		{text: "limit what takes the CPUs (nice, a cgroup)"},
	}
}

func throttledAdvice() []advice {
	return []advice{
		{text: "raise the container's CPU limit, or run fewer workers in it", does: fewerProcesses | fewerThreads},
		{text: "raise the container's CPU limit"},
	}
}

// takesLess begins advice with how to make ddtop use less.
func takesLess(list []advice) []advice {
	for i := range list {
		list[i].text = "let ddtop take less (--overhead 1%); then " + list[i].text
	}
	return list
}

func memoryStallAdvice() []advice {
	return []advice{
		{text: "fewer threads or processes on this machine, jemalloc or MALLOC_ARENA_MAX=2, more memory", does: fewerProcesses | fewerThreads},
		{text: "jemalloc or MALLOC_ARENA_MAX=2, more memory"},
	}
}

// saturatedAdvice says how many threads fill a process: 1/(1-io) if a share io of the time is outside the GVL.
func saturatedAdvice(io float64) []advice {
	starved := advice{text: "give the process more CPU first: it keeps the GVL longer because it has none", with: ruleStarved}
	collects := advice{text: "allocate less first: the collector runs with the GVL while they wait", with: "gc_pressure"}
	less := advice{text: "do less in Ruby for each request: see what holds the GVL most"}
	if io <= 0 || io > .95 {
		return []advice{starved, collects, {text: "move CPU work to other processes; more threads only wait longer", does: moreProcesses}, less}
	}
	fill := "one thread fills"
	if n := 1 / (1 - io); n >= 1.25 {
		fill = "about " + number(n) + " threads fill"
	}
	return []advice{starved, collects, {
		text: "I/O is " + units.RoundPercent(io) + " of the work: " + fill + " a process; use fewer threads and more processes",
		does: fewerThreads | moreProcesses,
	}, less}
}

func threadHogAdvice() []advice {
	return []advice{
		{text: "move this work to another process, lower its Thread#priority, or call Thread.pass in it", does: moreProcesses},
		{text: "give the process more CPU first; then lower this thread's Thread#priority, or call Thread.pass in it", with: ruleStarved},
		{text: "lower this thread's Thread#priority, or call Thread.pass in it"},
	}
}

func routeHogAdvice() []advice {
	return []advice{
		{text: "move this work to another process or to a job, or call Thread.pass in it", does: moreProcesses},
		{text: "give the process more CPU first; then call Thread.pass in this work", with: ruleStarved},
		{text: "move this work to a job, or call Thread.pass in it"},
	}
}

// stuckAdvice is the advice for a holder. known is true if its innermost frame is known, c if that is a C function.
func stuckAdvice(known, c bool) []advice {
	switch {
	case !known:
		return []advice{{text: "look at its stack and at what it waits for: a C function that does not release the GVL, or a page from the disk"}}
	case c:
		return []advice{
			{text: "this C function does not release the GVL: upgrade its gem, do it in smaller parts, or in another process", does: moreProcesses},
			{text: "this C function does not release the GVL: upgrade its gem, or do it in smaller parts"},
		}
	}
	return []advice{
		{text: "one step of this Ruby code takes that long: do it in smaller parts, or in another process", does: moreProcesses},
		{text: "one step of this Ruby code takes that long: do it in smaller parts"},
	}
}

func ioBusyAdvice() []advice {
	return []advice{
		{text: "ask less often or for more at once; the GVL is free meanwhile, so more threads would do more at a time", does: moreThreads},
		{text: "ask less often or for more at once; more threads would share the same CPUs", with: ruleStarved},
		{text: "ask less often or for more at once"},
	}
}

func threadLeakAdvice() []advice {
	return []advice{{text: "see why those threads do not end; start them from a pool"}}
}

func allBusyAdvice() []advice {
	return []advice{
		{text: "give the process more CPU first: more workers would share the same CPUs", with: ruleStarved},
		{text: "follow the advice above first; then check whether more workers are needed", below: true},
		{text: "no other cause was found: add worker processes", does: moreProcesses, alone: true},
		{text: "see where they spend most of their time"},
	}
}
