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

// paidScript does a fixed piece of work for each line of input, which says how many turns, in its main thread, 30 frames deep, beside
// four idle ones. "compute" stays in Ruby code; "allocate" takes 256 KB from the kernel each time, writes them and gives them back, so
// that the thread takes the lock of the process's mappings for writing twice and faults 64 times a turn.
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
	// paidPairs is how often the work is done with each profiler and without.
	paidPairs = 20
	// paidWork is how much CPU time a piece of it takes, about.
	paidWork = 400 * time.Millisecond
	// paidTurns are tried to find how many that is.
	paidTurns = 500
)

// paid is what a piece of work took: CPU time of its thread (user and system) and wall time in ns, the process's minor page faults
// and the thread's context switches.
type paid struct{ cpu, wall, faults, switches float64 }

// BenchmarkTarget measures what the process itself pays for being sampled: the CPU time of a fixed piece of its work, its page
// faults and its context switches, with each profiler and without, in turns, beside a free CPU and on a machine whose CPUs are all
// busy. faults-caused are those of the profiler's own, a second: a page that a reader makes present counts as the reader's fault.
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
				// Without the threshold glibc keeps what is given back.
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
	// By profiler, none the last.
	costs := make([][]paid, len(all)+1)
	caused := make([][]float64, len(all))
	for round := range paidPairs {
		for k := range costs {
			i := k
			if round%2 == 1 { // what the machine does meanwhile is to hit all alike
				i = len(all) - k
			}
			if i == len(all) {
				time.Sleep(attachTime) // as before the others
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
	b.ReportMetric(0, "ns/op") // a run's length is chosen, not measured
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

// workFor has the program do so many turns.
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

// minorFaults are the profiler's since its start.
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

// minorFaults are a process's since its start.
func minorFaults(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// A name may hold anything but ends with the last bracket; state ppid pgrp session tty tpgid flags minflt follow.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 8 {
		return 0, fmt.Errorf("%q has no faults", text)
	}
	return strconv.ParseFloat(fields[7], 64)
}

var switchesOf = regexp.MustCompile(`ctxt_switches:\s+(\d+)`)

// contextSwitches are those of a process's main thread since its start.
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
