package rivals

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// paidScript does a fixed piece of work for each line of input. The line is the number of turns. The main thread does
// the work, 30 frames deep, and four other threads are idle. The work "compute" stays in Ruby code. The work "allocate"
// gets 256 KB from the kernel in each turn, writes to this memory and frees it. So in each turn, the thread takes the
// write lock of the process's memory mappings twice, and has 64 page faults.
const paidScript = `
$stdout.sync = true
def deep(n, &work)
  n == 0 ? work.call : deep(n - 1, &work)
end
def compute(turns)
  i = 0
  turns.times { j = 0; j += 1 while j < 1000; i += j }
end
def allocate(turns)
  turns.times { ("x" * 262_144).clear }
end
def clocks
  [Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID, :nanosecond), Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)]
end
4.times { Thread.new { deep(30) { sleep } } }
puts "up"
deep(30) do
  while (line = $stdin.gets)
    before = clocks
    send(ARGV[0], line.to_i)
    puts clocks.zip(before).map { |a, b| a - b }.join(" ")
  end
end
`

const (
	// paidPairs is how often the work is done with each profiler, and without one.
	paidPairs = 20
	// paidWork is the approximate CPU time of one piece of work. The number of its turns is chosen so that it takes
	// this time.
	paidWork = 400 * time.Millisecond
	// paidTurns is the number of turns of a first trial. The trial shows how many turns take as much CPU time as
	// paidWork.
	paidTurns = 500
)

// paid is what a piece of work costs the process. cpu is the CPU time (user and system) of the thread that does the
// work, and wall is the wall time, in ns. faults are the process's minor page faults. switches are the main thread's
// context switches.
type paid struct{ cpu, wall, faults, switches float64 }

// BenchmarkTarget measures what the target pays while it is sampled. The target does a fixed piece of work with each
// profiler and without one, in turns. The benchmark measures CPU time, page faults and context switches, with a free
// CPU and on a machine whose CPUs are all busy.
//
// faults-caused are the page faults per second that the kernel counts for the profiler. If the profiler is the first to
// read a page of the target, the page fault counts as the profiler's. So the target's own faults do not include such a
// page fault.
func BenchmarkTarget(b *testing.B) {
	all := []meter{bareMeter(b, "bare-loop", 1000)}
	for _, v := range versions(b) {
		all = append(all, stat(v.path, v.name), stat(v.path, v.name+"-stacks-alone", stacksAlone...))
	}
	if path, ok := findRbspy(); ok {
		all = append(all, rbspyMeter(path))
	} else {
		b.Log(noRbspy)
	}
	ruby := theRuby(b)
	if ruby.Root != "" {
		reachable(b, ruby.Root)
	}
	for _, work := range []string{"compute", "allocate"} {
		for _, machine := range []string{"free-cpu", "full"} {
			b.Run(work+"/"+machine, func(b *testing.B) {
				// A freed block goes back to the kernel at once only if it is larger than this threshold. glibc keeps
				// smaller blocks.
				p := ruby.Start(b, paidScript, rubytest.Options{Args: []string{work}, Env: []string{"MALLOC_MMAP_THRESHOLD_=131072"}})
				p.Expect(b, "up")
				if machine == "full" {
					for range runtime.NumCPU() - 1 {
						ruby.Start(b, `puts "up"; $stdout.flush; loop { }`, rubytest.Options{}).Expect(b, "up")
					}
				}
				for range b.N {
					pay(b, all, p)
				}
			})
		}
	}
}

func pay(b *testing.B, all []meter, p *rubytest.Process) {
	b.Helper()
	trial := workFor(b, p, paidTurns)
	turns := int(paidTurns * float64(paidWork) / trial.cpu)
	// costs has a list of measurements for each profiler. Its last list is for the measurements without a profiler.
	costs := make([][]paid, len(all)+1)
	caused := make([][]float64, len(all))
	for round := range paidPairs {
		for k := range costs {
			i := k
			if round%2 == 1 { // reverse the order, so that changes of the machine affect all profilers equally
				i = len(all) - k
			}
			if i == len(all) {
				time.Sleep(attachTime) // as long a pause as with a profiler
				costs[i] = append(costs[i], workFor(b, p, turns))
				continue
			}
			s := all[i].start(b, p.PID, railsLimit)
			time.Sleep(attachTime)
			from, faults := monotonic(), s.minorFaults(b)
			costs[i] = append(costs[i], workFor(b, p, turns))
			until := monotonic()
			caused[i] = append(caused[i], (s.minorFaults(b)-faults)/(until-from).Seconds())
			s.end(b, from, until)
		}
	}
	b.ReportMetric(0, "ns/op") // suppresses ns/op, which means nothing because the length of a run is fixed
	none := costs[len(all)]
	for i, m := range all {
		var cpu, wall, faults, switches []float64
		for round, with := range costs[i] {
			without := none[round]
			cpu = append(cpu, 100*(with.cpu/without.cpu-1))
			wall = append(wall, 100*(with.wall/without.wall-1))
			faults = append(faults, with.faults-without.faults)
			switches = append(switches, (with.switches-without.switches)/(with.wall/1e9))
		}
		low, high := medianInterval(cpu)
		b.ReportMetric(median(cpu), m.name+"-more-cpu-%")
		b.ReportMetric(low, m.name+"-more-cpu-low-%")
		b.ReportMetric(high, m.name+"-more-cpu-high-%")
		b.ReportMetric(median(wall), m.name+"-longer-%")
		b.ReportMetric(median(faults), m.name+"-more-faults")
		b.ReportMetric(median(switches), m.name+"-more-switches/s")
		b.ReportMetric(median(caused[i]), m.name+"-faults-caused/s")
	}
}

// workFor makes the program do a number of turns of its work, and returns what this cost.
func workFor(b *testing.B, p *rubytest.Process, turns int) paid {
	b.Helper()
	faults, switches := faultsOf(b, p.PID), contextSwitches(b, p.PID)
	p.Send(b, strconv.Itoa(turns))
	var c paid
	line := p.Line(b)
	if n, err := fmt.Sscan(line, &c.cpu, &c.wall); n != 2 {
		b.Fatalf("the program said %q: %v", line, err)
	}
	c.faults, c.switches = faultsOf(b, p.PID)-faults, contextSwitches(b, p.PID)-switches
	return c
}

// minorFaults returns the minor page faults of the profiler's own process since its start.
func (s *started) minorFaults(b *testing.B) float64 {
	b.Helper()
	faults, err := minorFaults(s.cmd.Process.Pid)
	if err != nil {
		b.Fatalf("%s has ended (%v): %v\n%s", s.name, err, <-s.ended, s.told.String())
	}
	return faults
}

func faultsOf(b *testing.B, pid int) float64 {
	b.Helper()
	faults, err := minorFaults(pid)
	if err != nil {
		b.Fatal(err)
	}
	return faults
}

// minorFaults returns a process's minor page faults since its start.
func minorFaults(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The line has the process's name in brackets, and the name can itself contain brackets and blanks. After the last
	// bracket come the fields state ppid pgrp session tty tpgid flags minflt.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 8 {
		return 0, fmt.Errorf("%q has no faults", text)
	}
	return strconv.ParseFloat(fields[7], 64)
}

var switchesOf = regexp.MustCompile(`ctxt_switches:\s+(\d+)`)

// contextSwitches returns the number of context switches of a process's main thread since its start.
func contextSwitches(b *testing.B, pid int) (sum float64) {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for _, m := range switchesOf.FindAllSubmatch(text, -1) {
		n, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil {
			b.Fatal(err)
		}
		sum += n
	}
	return sum
}
