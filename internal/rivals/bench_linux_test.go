package rivals

import (
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
)

const (
	// pairs is the number of comparisons. Each compares an interval in which the profiler runs with the interval before
	// it, in which no profiler runs.
	pairs = 3
	// windowSeconds is the length of each compared interval, in seconds. shortSeconds is the length of a further run,
	// which shows the cost of the profiler's start-up.
	windowSeconds = 3
	shortSeconds  = 1
)

// BenchmarkRivals measures rbspy and ddtop on the same process, one after the other. It repeats this with every
// available Ruby.
func BenchmarkRivals(b *testing.B) {
	path, found := findRbspy()
	if !found {
		rubytest.Skip(b, "%s", noRbspy)
	}
	all := []profiler{rbspy(path, "rbspy"), rbspy(path, "rbspy-nonblocking", "--nonblocking")}
	for _, v := range versions(b) {
		all = append(all, ddtop(v.path, v.name), ddtop(v.path, v.name+"-stacks-alone", stacksAlone...))
	}
	for _, r := range rubytest.All(b) {
		b.Run(r.Name, func(b *testing.B) {
			program := r.Start(b, script, rubytest.Options{})
			program.Expect(b, "up")
			if r.Root != "" {
				reachable(b, r.Root)
			}
			for _, p := range all {
				b.Run(p.name, func(b *testing.B) { compare(b, p, program) })
			}
		})
	}
}

// compare measures the costs of one profiler on a program. It measures only once, whatever b.N is, because one run is
// long enough.
func compare(b *testing.B, p profiler, program *rubytest.Process) {
	for range b.N {
		short := p.run(b, program.PID, shortSeconds)
		if short.refused != "" {
			// Do not mark the benchmark as skipped: the output would then have no line for it.
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(0, "stacks/s")
			b.Logf("%s can't read %s: %s", p.name, program.Ruby, short.refused)
			return
		}
		var long []measured
		var slowerWall, slowerCPU []float64
		for range pairs {
			before := ask(b, program)
			time.Sleep(windowSeconds * time.Second)
			begin := ask(b, program)
			long = append(long, p.run(b, program.PID, windowSeconds))
			end := ask(b, program)
			slowerWall = append(slowerWall, slower(before, begin, end, func(p progress) float64 { return p.wallNS }))
			slowerCPU = append(slowerCPU, slower(before, begin, end, func(p progress) float64 { return p.cpuNS }))
		}
		report(b, short, long, slowerWall, slowerCPU)
	}
}

// slower compares the program's speed in two intervals: without a profiler (before to begin) and with one (begin to
// end). It returns how many percent fewer turns per second the program makes with the profiler. clock selects wall time
// or CPU time.
func slower(before, begin, end progress, clock func(progress) float64) float64 {
	without := (begin.turns - before.turns) / (clock(begin) - clock(before))
	with := (end.turns - begin.turns) / (clock(end) - clock(begin))
	return 100 * (1 - with/without)
}

func report(b *testing.B, short measured, long []measured, slowerWall, slowerCPU []float64) {
	b.Helper()
	var perStack, perLook, startup []float64
	var sum verdict
	sum.threads = make(map[string]bool)
	for _, m := range long {
		if m.refused != "" || m.stacks <= short.stacks || m.looks <= short.looks {
			b.Fatalf("%d stacks in %d s, %d in %d s; %s", m.stacks, windowSeconds, short.stacks, shortSeconds, m.refused)
		}
		cost := float64((m.cpu - short.cpu).Microseconds()) / float64(m.stacks-short.stacks)
		perStack = append(perStack, cost)
		perLook = append(perLook, float64((m.cpu-short.cpu).Microseconds())/float64(m.looks-short.looks))
		startup = append(startup, float64(short.cpu.Microseconds())/1e3-cost*float64(short.stacks)/1e3)
		sum.stacks += m.stacks
		sum.impossible += m.impossible
		sum.callers += m.callers
		sum.right += m.right
		sum.frames += m.frames
		sum.named += m.named
		for id := range m.threads {
			sum.threads[id] = true
		}
		if sum.firstWrong == "" {
			sum.firstWrong, sum.firstOdd = m.firstWrong, m.firstOdd
		}
	}
	if sum.callers == 0 {
		b.Fatalf("no frame of a caller in %d stacks: nothing to judge", sum.stacks)
	}
	b.ReportMetric(0, "ns/op") // suppresses ns/op, which means nothing because the length of a run is fixed
	b.ReportMetric(median(perStack), "cpu-µs/stack")
	b.ReportMetric(median(perLook), "cpu-µs/look")
	b.ReportMetric(median(startup), "startup-ms")
	b.ReportMetric(float64(sum.stacks)/float64(len(long)*windowSeconds), "stacks/s")
	b.ReportMetric(median(slowerWall), "wall-slower-%")
	b.ReportMetric(median(slowerCPU), "cpu-slower-%")
	b.ReportMetric(percent(sum.right, sum.callers), "lines-right-%")
	b.ReportMetric(percent(sum.impossible, sum.stacks), "impossible-%")
	b.ReportMetric(percent(sum.named, sum.frames), "named-%")
	b.ReportMetric(percent(len(sum.threads), threadsOfScript), "threads-%")
	if sum.firstWrong != "" || sum.firstOdd != "" {
		b.Logf("%s %s", sum.firstWrong, sum.firstOdd)
	}
}
