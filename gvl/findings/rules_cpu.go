package findings

import (
	"math"
	"strings"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/code"
	"github.com/ddtop/ddtop/gvl/findings/internal/cpuuse"
	"github.com/ddtop/ddtop/gvl/findings/internal/stackkind"
	"github.com/ddtop/ddtop/gvl/findings/internal/tips"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// gcMinHeld and gcMinWall are the smallest shares of the time for which evalGCPressure matches. The GVL must be held
// for gcMinHeld, and the collector must run for gcMinWall. Without them, one full collection in ten seconds would raise
// the finding in a server with little work.
const gcMinHeld, gcMinWall = .10, .05

// evalCPUStarved matches if the container is throttled, or if threads lack CPU while they hold the GVL or work without
// it.
func evalCPUStarved(w *window) hit {
	// Divide the time without a CPU by all time as a holder. If it were divided by the time that the counters saw, the
	// share would be too large. A thread's counters miss most short holds, which fall between two readings. A hold in
	// which the thread loses its CPU takes longer, so the counters show it more often. The same is true for work
	// outside the GVL.
	ran := max(w.holderCPU+w.holderWait, w.total.ns[gvl.Running])
	worked := max(w.nativeCPU+w.nativeWait, w.total.ns[gvl.Native])
	delay, delayOutside := gvl.Ratio(w.holderWait, ran), gvl.Ratio(w.nativeWait, worked)
	first, last := &w.firstPr, &w.lastPr
	throttled := gvl.Ratio(last.ThrottledPeriods-first.ThrottledPeriods, last.Periods-first.Periods)
	stopped := w.share(last.ThrottledNS - first.ThrottledNS)
	holders := least(delay/w.limits.starvedDelay, w.share(ran)/w.limits.starvedTurns)
	// A thread that works without the GVL delays no other thread. So if only a little of the work is done without the
	// GVL, ignore a lack of CPU there.
	outside := least(delayOutside/w.limits.starvedDelay, w.share(worked)/w.limits.starvedTurns, w.ofBusy(worked)/w.limits.starvedTurns)
	container := least(throttled/w.limits.throttled, stopped/w.limits.starvedTurns)
	// At low rates, each thread's counters are read too rarely. So use the counters of the whole process as well.
	used, lacked := w.heldWithoutCPU()
	process := least(lacked/w.limits.starvedDelay, w.share(w.total.ns[gvl.Running]+w.total.ns[gvl.GC])/w.limits.starvedTurns)
	h := hit{severity: SeverityWarn, score: max(holders, outside, container, process)}
	if h.score < 1 {
		return h
	}
	if holders >= 1 && delay >= w.limits.starvedDelayCrit || process >= 1 && lacked >= w.limits.starvedDelayCrit || outside >= 1 && delayOutside >= w.limits.starvedDelayCrit ||
		container >= 1 && throttled >= w.limits.throttledCrit {
		h.severity = SeverityCrit
	}
	wait := w.holderWait
	if process >= 1 {
		wait = max(wait, int64(lacked*float64(w.total.ns[gvl.Running]+w.total.ns[gvl.GC])))
	}
	h.explains = max(w.withWaiters(wait)+w.nativeWait, w.ofAll(min(stopped, 1)))
	h.title = "Short of CPU"
	next := tips.Starved()
	var said []string
	switch {
	case holders >= 1:
		said = append(said, "the holder of the GVL had no CPU for "+units.RoundPercent(delay)+" of its holds")
	case process >= 1:
		said = append(said, "Ruby code "+tense("holds", "held")+" the GVL "+units.RoundPercent(w.share(w.total.ns[gvl.Running]+w.total.ns[gvl.GC]))+
			" of the time, but all threads together "+tense("get", "got")+" only "+units.RoundPercent(used)+" of a CPU")
	}
	if outside >= 1 {
		said = append(said, "threads outside the GVL had no CPU for "+units.RoundPercent(delayOutside)+" of their work")
	}
	if throttled >= w.limits.throttled {
		said = append(said, "the container was throttled in "+units.RoundPercent(throttled)+" of its periods"+cpuuse.Limit(w.s.CPUUse))
		next = tips.Throttled()
	}
	// Narrow screens cut off the end of the text. So the affinity comes before the list of other processes.
	if may := cpuuse.Affinity(w.s.CPUUse, w.ev.proc.CPUs); may != "" {
		said = append(said, may)
	}
	if who := cpuuse.Said(w.s.CPUUse, w.nowNS, container >= 1); len(who) > 0 {
		said = append(said, who...)
		if container < 1 {
			next = tips.Taken()
		}
	}
	if own := cpuuse.Own(w.s.CPUUse, used, w.ev.proc.CPUs); own != "" && container < 1 {
		h.ownCPU = true
		said = append(said, own)
	}
	if own := w.own(); own >= ownSaid {
		said = append(said, "ddtop itself took "+units.RoundPercent(own)+" of a CPU")
		if own >= ownMuch {
			next = tips.TakesLess(next)
		}
	}
	h.advise(next...)
	h.text = strings.Join(said, "; ")
	return h
}

const (
	// counterSpanNS is the shortest time between two readings of the process's counters that rules compare.
	counterSpanNS = 2e9
	// heldSigmas is a number of standard deviations. The time with the GVL counts as longer than the used CPU time only
	// if the difference is larger than this.
	heldSigmas = 4
)

// heldWithoutCPU returns two numbers. used is how many CPUs the process used. lacked is a share: the part of the time
// with the GVL in which its holder had no CPU. It is a lower bound, because it counts all used CPU time as the holders'
// time. At low rates, a sleeping holder can look like a holder without a CPU. So lacked is zero unless the kernel
// reports waits for CPUs (PSI).
func (w *window) heldWithoutCPU() (used, lacked float64) {
	first, last := &w.firstPr, &w.lastPr
	span := last.AtNS - first.AtNS
	held := w.share(w.total.ns[gvl.Running] + w.total.ns[gvl.GC])
	if first.AtNS == 0 || span < counterSpanNS || held == 0 || w.quality.Samples == 0 {
		return 0, 0
	}
	used = gvl.Ratio(last.UserNS+last.SystemNS-first.UserNS-first.SystemNS, span)
	if last.Pressure.Source == sampler.PressureNone || last.Pressure.Source != first.Pressure.Source ||
		gvl.Ratio(last.Pressure.CPUSomeNS-first.Pressure.CPUSomeNS, span) < w.limits.starvedDelay {
		return used, 0
	}
	// Samples within one time slice often see the same thread. So n, the number of samples for the standard deviation,
	// includes at most one sample per time slice.
	n := min(float64(w.quality.Samples), float64(w.sampledNS)/gvl.TimeSliceNS)
	most := float64(max(len(w.ractors), 1))
	sure := held - heldSigmas*math.Sqrt(held*max(most-held, 0)/max(n, 1))
	return used, max(sure-used, 0) / held
}

const (
	// ownSaid is the share of a CPU from which on a finding about missing CPU time mentions what ddtop uses. From the
	// share ownMuch on, the advice begins with how to make ddtop use less.
	ownSaid, ownMuch = .01, .05
)

// machineFaults is a part of the threshold for major faults. If a process has at least this part, memory pressure of
// the whole machine is evidence about this process. With fewer faults, another process may be the one that lacks
// memory.
const machineFaults = .1

// evalMemoryStall matches if the GVL's holder often sleeps until a page is read from the disk. It also matches if lack
// of memory stops all tasks of the cgroup or machine.
func evalMemoryStall(w *window) hit {
	first, last := &w.firstPr, &w.lastPr
	span := last.AtNS - first.AtNS
	if first.AtNS == 0 || span <= 0 {
		return hit{}
	}
	perSecond := float64(last.MajorFaults-first.MajorFaults) / (float64(span) / 1e9)
	faults := perSecond / w.limits.memoryFaults
	full, pressed := 0.0, 0.0
	if last.Pressure.Source != sampler.PressureNone && first.Pressure.Source == last.Pressure.Source {
		full = gvl.Ratio(last.Pressure.MemoryFullNS-first.Pressure.MemoryFullNS, span)
		pressed = full / w.limits.memoryPressure
		if last.Pressure.Source == sampler.PressureMachine {
			pressed = least(pressed, faults/machineFaults)
		}
	}
	h := hit{
		score:    max(least(faults, w.share(w.total.ns[gvl.Stalled])/w.limits.memoryAsleep), pressed),
		severity: SeverityCrit,
	}
	if h.score < 1 {
		return h
	}
	h.explains = max(w.withWaiters(w.total.ns[gvl.Stalled]), w.ofAll(min(full, 1)))
	h.title = "Starved of memory"
	h.text = number(perSecond) + " major page faults/s; the holder of the GVL " + tense("sleeps", "slept") + " in the kernel " +
		units.RoundPercent(w.share(w.total.ns[gvl.Stalled])) + " of the time"
	if pressed >= 1 {
		whose := "its cgroup"
		if last.Pressure.Source == sampler.PressureMachine {
			whose = "the machine"
		}
		h.text += "; all tasks of " + whose + " that had work stood still for lack of memory " + units.RoundPercent(full) + " of the time"
	}
	if last.SwapBytes > 0 {
		h.text += "; " + itoa(last.SwapBytes>>20) + " MiB swapped out"
	}
	h.advise(tips.MemoryStall()...)
	return h
}

// evalGCPressure matches if the collector takes a large part of the time.
func evalGCPressure(w *window) hit {
	held := w.total.held()
	// Leave out the time in which collections had no CPU, because the machine causes it, and not the program's objects.
	gc, wall := gvl.Ratio(max(w.total.ns[gvl.GC]-w.lackedNS, 0), max(held-w.lackedNS, 1)), w.share(max(w.gcNS-w.lackedNS, 0))
	// With half of a CPU, a collection takes twice as long. The cause is not the allocations but the lack of CPU, which
	// the rule cpu_starved reports. So multiply the collector's time by its share of a CPU.
	ran := 1 - min(gvl.Ratio(w.holderWait, max(w.holderCPU+w.holderWait, held)), 1)
	h := hit{severity: SeverityWarn}
	h.score = max(least(gc/w.limits.gcOfHeld, ran*w.share(held)/gcMinHeld, ran*wall/gcMinWall), ran*wall/w.limits.gcOfWall)
	stack, part := gvl.TopKey(w.gcStacks)
	if stack != 0 && w.ev.classes.Of(stack)&stackkind.GCStart != 0 && w.total.ns[gvl.Waiting] == 0 {
		return hit{} // the program called GC.start while no thread waited, so this did no harm
	}
	if h.score < 1 {
		return h
	}
	h.stack, h.explains = stack, w.withWaiters(int64(ran*float64(w.gcNS)))
	h.title = "Garbage collection"
	h.text = tense("takes", "took") + " " + units.RoundPercent(w.share(w.gcNS)) + " of the time, " + units.RoundPercent(gvl.Ratio(w.total.ns[gvl.GC], held)) + " of all Ruby work"
	if w.firstGC.Valid && w.lastGC.Valid && w.sampledNS > 0 {
		sec := float64(w.sampledNS) / 1e9
		h.text += " (" + number(float64(w.lastGC.MinorCount-w.firstGC.MinorCount)/sec) + " minor, " +
			number(float64(w.lastGC.MajorCount-w.firstGC.MajorCount)/sec) + " major/s)"
	}
	// Two kinds of stacks do not show which code allocates most. One is the stack of a library's own thread. The other
	// is a stack whose innermost method only waits. Such a method allocates nothing, so its stack was read before the
	// collection.
	waits := gvl.OnlyWaits(w.dict, stack)
	h.next = "allocate less there; then tune the heap (the autotuner gem)"
	if maker, made := w.maker(); maker != 0 && (waits || !code.HasOwn(w.dict, stack)) {
		h.stack = maker
		h.text += "; " + made
	} else if code := w.place(stack); code != "" && !waits {
		h.text += "; most under " + code + " (" + units.RoundPercent(gvl.Ratio(part, w.total.ns[gvl.GC])) + ")"
	} else {
		h.stack = 0
		h.next = "see what allocates most (view 7), and allocate less there; then tune the heap (the autotuner gem)"
	}
	return h
}

// evalGCMajors matches if full collections are frequent and, at the same time, threads wait for the GVL.
func evalGCMajors(w *window) hit {
	if !w.firstGC.Valid || !w.lastGC.Valid {
		return hit{}
	}
	majors := float64(w.lastGC.MajorCount - w.firstGC.MajorCount)
	h := hit{
		score: least(majors/w.limits.gcMajors, w.share(w.total.ns[gvl.Waiting])/w.limits.gcMajorsWaiters), severity: SeverityWarn,
	}
	if h.score < 1 {
		return h
	}
	h.explains = w.withWaiters(w.gcNS)
	h.title = "Frequent full collections"
	h.text = units.Plural(int(majors), "major collection", "major collections") + " in " + units.ProseDuration(w.sampledNS) + " while " +
		number(w.share(w.total.ns[gvl.Waiting])) + " threads " + tenseWait
	h.next = "look for objects that live just long enough to become old; raise RUBY_GC_HEAP_OLDOBJECT_LIMIT_FACTOR"
	return h
}
