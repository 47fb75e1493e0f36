// Package tips has the advice for findings. For each finding it has a list of pieces of advice, the best first. If the
// first piece contradicts other advice, a later piece is used.
package tips

import (
	"fmt"

	"github.com/ddtop/ddtop/internal/units"
)

// Effect is the change in the number of processes and threads that a piece of advice asks for. It is a set of bits.
type Effect uint8

// These are the changes in the number of processes and threads.
const (
	MoreProcesses Effect = 1 << iota
	FewerProcesses
	MoreThreads
	FewerThreads
)

// Against returns the effects that contradict c: if c means more processes, the result means fewer, and so on.
func (c Effect) Against() (x Effect) {
	for _, pair := range [...][2]Effect{{MoreProcesses, FewerProcesses}, {MoreThreads, FewerThreads}} {
		if c&pair[0] != 0 {
			x |= pair[1]
		}
		if c&pair[1] != 0 {
			x |= pair[0]
		}
	}
	return x
}

// Advice is something to do about a finding.
type Advice struct {
	Text string
	Does Effect
	// With is a rule's name, or empty. If it is set, the advice fits only if a finding of this rule is a cause of the
	// finding that gets the advice.
	With string
	// Below is set if the advice refers to a finding above it in the list. So this advice never fits the first finding.
	// Alone is set if the advice fits only while no other finding is active.
	Below, Alone bool
}

// RuleStarved is the rule for a process that lacks CPU. Such a finding changes the advice of other findings.
const RuleStarved = "cpu_starved"

// Starved returns advice for a process that lacks CPU.
func Starved() []Advice {
	return []Advice{
		{Text: "fewer workers on this machine, or more CPUs", Does: FewerProcesses | FewerThreads},
		{Text: "see what else uses the machine's CPUs"},
	}
}

// Taken is like Starved. It is for a finding that already names the processes that use the CPUs.
func Taken() []Advice {
	return []Advice{
		{Text: "limit what takes the CPUs (nice, a cgroup), fewer workers on this machine, or more CPUs", Does: FewerProcesses | FewerThreads},
		{Text: "limit what takes the CPUs (nice, a cgroup)"},
	}
}

// Throttled returns advice for a container that has used up its CPU limit.
func Throttled() []Advice {
	return []Advice{
		{Text: "raise the container's CPU limit, or run fewer workers in it", Does: FewerProcesses | FewerThreads},
		{Text: "raise the container's CPU limit"},
	}
}

// TakesLess adds, at the beginning of each piece of advice, how to make ddtop use less CPU.
func TakesLess(list []Advice) []Advice {
	for i := range list {
		list[i].Text = "let ddtop take less (--overhead 1%); then " + list[i].Text
	}
	return list
}

// MemoryStall returns advice for a process that lacks memory.
func MemoryStall() []Advice {
	return []Advice{
		{Text: "fewer threads or processes on this machine, jemalloc or MALLOC_ARENA_MAX=2, more memory", Does: FewerProcesses | FewerThreads},
		{Text: "jemalloc or MALLOC_ARENA_MAX=2, more memory"},
	}
}

// Saturated returns advice for a saturated GVL. io is the share of the work that is I/O. The number of threads that can
// use all of a process's GVL follows from io: 1/(1-io).
func Saturated(io float64) []Advice {
	starved := Advice{Text: "give the process more CPU first: it keeps the GVL longer because it has none", With: RuleStarved}
	collects := Advice{Text: "allocate less first: the collector runs with the GVL while they wait", With: "gc_pressure"}
	less := Advice{Text: "do less in Ruby for each request: see what holds the GVL most"}
	if io <= 0 || io > .95 {
		return []Advice{starved, collects, {Text: "move CPU work to other processes; more threads only wait longer", Does: MoreProcesses}, less}
	}
	fill := "one thread fills"
	if n := 1 / (1 - io); n >= 1.25 {
		fill = "about " + units.Number(n, 1) + " threads fill"
	}
	return []Advice{starved, collects, {
		Text: "I/O is " + units.RoundPercent(io) + " of the work: " + fill + " a process; use fewer threads and more processes",
		Does: FewerThreads | MoreProcesses,
	}, less}
}

// ThreadHog returns advice for a thread that hogs the GVL.
func ThreadHog() []Advice {
	return []Advice{
		{Text: "move this work to another process, lower its Thread#priority, or call Thread.pass in it", Does: MoreProcesses},
		{Text: "give the process more CPU first; then lower this thread's Thread#priority, or call Thread.pass in it", With: RuleStarved},
		{Text: "lower this thread's Thread#priority, or call Thread.pass in it"},
	}
}

// RouteHog returns advice for a route or class of jobs that hogs the GVL.
func RouteHog() []Advice {
	return []Advice{
		{Text: "move this work to another process or to a job, or call Thread.pass in it", Does: MoreProcesses},
		{Text: "give the process more CPU first; then call Thread.pass in this work", With: RuleStarved},
		{Text: "move this work to a job, or call Thread.pass in it"},
	}
}

// Stuck returns advice for a thread that holds the GVL and does not give it up. known is true if the thread's innermost
// frame is known. c is true if this frame is a C function.
func Stuck(known, c bool) []Advice {
	switch {
	case !known:
		return []Advice{{Text: "look at its stack and at what it waits for: a C function that does not release the GVL, or a page from the disk"}}
	case c:
		return []Advice{
			{Text: "this C function does not release the GVL: upgrade its gem, do it in smaller parts, or in another process", Does: MoreProcesses},
			{Text: "this C function does not release the GVL: upgrade its gem, or do it in smaller parts"},
		}
	}
	return []Advice{
		{Text: "one step of this Ruby code takes that long: do it in smaller parts, or in another process", Does: MoreProcesses},
		{Text: "one step of this Ruby code takes that long: do it in smaller parts"},
	}
}

// IOBusy returns advice for threads that wait for I/O most of their time.
func IOBusy() []Advice {
	return []Advice{
		{Text: "ask less often or for more at once; the GVL is free meanwhile, so more threads would do more at a time", Does: MoreThreads},
		{Text: "ask less often or for more at once; more threads would share the same CPUs", With: RuleStarved},
		{Text: "ask less often or for more at once"},
	}
}

// ThreadLeak returns advice for threads whose number keeps growing.
func ThreadLeak() []Advice {
	return []Advice{{Text: "see why those threads do not end; start them from a pool"}}
}

// QueueGrows returns advice for a Queue that keeps growing.
func QueueGrows() []Advice {
	const less = "give each item less to do; a SizedQueue makes the threads wait that fill it"
	return []Advice{
		{Text: less, With: RuleStarved},
		{Text: "add threads that take from it, or " + less, Does: MoreThreads},
		{Text: less},
	}
}

// TakersEnded returns advice for a Queue that grows because threads that took from it have ended.
func TakersEnded() []Advice {
	return []Advice{{Text: "see why threads that took from it ended (Thread#report_on_exception), and start them again"}}
}

// AllBusy returns advice for a pool whose threads are all busy.
func AllBusy() []Advice {
	return []Advice{
		{Text: "give the process more CPU first: more workers would share the same CPUs", With: RuleStarved},
		{Text: "follow the advice above first; then check whether more workers are needed", Below: true},
		{Text: "no other cause was found: add worker processes", Does: MoreProcesses, Alone: true},
		{Text: "see where they spend most of their time"},
	}
}

// Regex returns advice for a regular expression that matches endlessly. It depends on Ruby's version, such as "3.1.2",
// because Ruby 3.2 has Regexp.timeout.
func Regex(version string) string {
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return "set Regexp.timeout (3.2 and later), rewrite the expression; look at the text it was given"
	}
	if major > 3 || major == 3 && minor >= 2 {
		return "set Regexp.timeout, rewrite the expression; look at the text it was given"
	}
	return "rewrite the expression without nested repetitions, limit the length of the text before it is matched; Ruby " +
		version + " has no Regexp.timeout, 3.2 has"
}

// Pool returns advice for threads that wait for a connection of a pool. awaited names another service that a thread
// with a connection waits for. It is empty if there is no such thread.
func Pool(awaited string) string {
	if awaited != "" {
		return "give the connection back before waiting for " + awaited + "; a larger pool only moves the limit"
	}
	return "see what threads with a connection do; make the pool as large as the number of threads"
}
