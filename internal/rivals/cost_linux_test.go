package rivals

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// idleProgram is the name of the program in which all threads sleep and none computes.
const idleProgram = "idle"

// costPrograms are the programs of BenchmarkCost and BenchmarkExact. Each prints "up" when its threads run. For each
// line of input, it prints three numbers: the work that its threads have done, its CPU time, and CLOCK_MONOTONIC, in
// ns.
var costPrograms = []struct{ name, script string }{
	{idleProgram, costScript(0, 10, 1)},
	{"10-threads", costScript(2, 8, 0.05)},
	{"100-threads", costScript(2, 98, 0.05)},
	{"500-threads", costScript(2, 498, 0.02)},
}

// costScript returns a program with named threads that are 30 frames deep. Some of the threads compute. The others
// sleep, and wake up once per interval of the given length.
func costScript(computing, sleeping int, seconds float64) string {
	return fmt.Sprintf(`
def deep(n, &work)
  n == 0 ? work.call : deep(n - 1, &work)
end
DONE = Array.new(%d, 0)
DONE.size.times { |i| Thread.new { deep(30) { loop { 1000.times { }; DONE[i] += 1 } } }.name = "computes-#{i}" }
%d.times { |i| Thread.new { deep(30) { loop { sleep %g } } }.name = "%s-#{i}" }
puts "up"
$stdout.flush
while $stdin.gets
  puts [DONE.sum, Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID, :nanosecond), Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)].join(" ")
  $stdout.flush
end
`, computing, sleeping, seconds, rowOf)
}

// rowOf is the text with which the names of sleeping threads begin. If this text is on the screen, the screen shows
// threads.
const rowOf = "sleeps"

const (
	// costRounds is how often each command is measured. The commands are measured in turns.
	costRounds = 5
	// costLength is the length of one measurement.
	costLength = 2 * time.Second
)

// measure is a named cost that a benchmark measures, in percent of a CPU. The function "of" measures this cost on a
// process.
type measure struct {
	name string
	of   func(b *testing.B, pid int) (float64, sampled)
}

// BenchmarkCost measures ddtop's own CPU time, headless and with the screen, on programs of 10, 100 and 500 threads and
// on an idle one. For comparison, it measures bareLoop, which only sleeps and reads as often as ddtop. ddtop's own work
// is the difference. If DDTOP_BENCH_BEFORE names an older ddtop, the benchmark measures that ddtop, too.
func BenchmarkCost(b *testing.B) {
	meters := []meter{bareMeter(b, "bare-loop", 1000), bareMeter(b, "bare-loop-100-Hz", stackRate)}
	var screens []measure
	for _, v := range versions(b) {
		meters = append(meters, stat(v.path, v.name), stat(v.path, v.name+"-stacks-alone", stacksAlone...))
		screens = append(screens, measure{v.name + "-screen", func(b *testing.B, pid int) (float64, sampled) {
			return screenCost(b, v.path, pid, costLength), sampled{}
		}})
	}
	var all []measure
	for _, m := range meters {
		all = append(all, measure{m.name, func(b *testing.B, pid int) (float64, sampled) { return m.cost(b, pid, costLength) }})
	}
	all = append(all, screens...)
	ruby := theRuby(b)
	for _, program := range costPrograms {
		b.Run(program.name, func(b *testing.B) {
			p := ruby.Start(b, program.script, rubytest.Options{})
			p.Expect(b, "up")
			for range b.N {
				costs, locks, stacks := make([][]float64, len(all)), make([][]float64, len(all)), make([][]float64, len(all))
				for range costRounds {
					for i, m := range all {
						cost, said := m.of(b, p.PID)
						costs[i] = append(costs[i], cost)
						locks[i], stacks[i] = append(locks[i], said.lockHz), append(stacks[i], said.stackHz)
					}
				}
				for i, m := range all {
					b.ReportMetric(median(costs[i]), m.name+"-%")
					reportRates(b, m.name, locks[i], stacks[i])
				}
				b.ReportMetric(0, "ns/op") // suppresses ns/op, which means nothing because the length of a run is fixed
			}
		})
	}
}

// reportRates reports the rates at which a profiler read the GVL and stacks, if it prints them. A cost means little
// without these rates, because a profiler with low rates seems cheap.
func reportRates(b *testing.B, name string, locks, stacks []float64) {
	b.Helper()
	if rate := median(locks); rate > 0 {
		b.ReportMetric(rate, name+"-lock-Hz")
	}
	if rate := median(stacks); rate > 0 {
		b.ReportMetric(rate, name+"-stack-Hz")
	}
}

// version is a ddtop to measure.
type version struct{ name, path string }

// versions returns the ddtop that is built from this folder, and the older one that DDTOP_BENCH_BEFORE names.
func versions(b *testing.B) []version {
	b.Helper()
	all := []version{{"ddtop", buildOwn(b)}}
	if before := os.Getenv("DDTOP_BENCH_BEFORE"); before != "" {
		all = append(all, version{"before", before})
	}
	return all
}

// stacksAlone are arguments with which ddtop reads the GVL only as often as stacks. It reads stacks as often as rbspy
// does.
var stacksAlone = []string{"--lock-rate", fmt.Sprint(stackRate)}

// buildOwn builds ddtop from this folder, in the same way as a release is built.
func buildOwn(b *testing.B) string {
	b.Helper()
	own := filepath.Join(b.TempDir(), "ddtop")
	cmd := exec.Command("go", "build", "-C", "../..", "-o", own, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("building ddtop: %v\n%s", err, out)
	}
	return own
}

// findRbspy returns rbspy's path, from PATH or from the folder in which cargo installs it.
func findRbspy() (path string, found bool) {
	if path, err := exec.LookPath("rbspy"); err == nil {
		return path, true
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", false
	}
	path, err = exec.LookPath(filepath.Join(home, ".cargo", "bin", "rbspy"))
	return path, err == nil
}

// noRbspy is the message that a benchmark prints if rbspy is not installed.
const noRbspy = "rbspy is neither on PATH nor in ~/.cargo/bin: `cargo install rbspy` gets it (cargo: apt-get install cargo, or https://rustup.rs)"

// theRuby returns the Ruby on which costs are measured. If possible it is Debian's 3.1, because rbspy can read this
// release.
func theRuby(b *testing.B) rubytest.Ruby {
	b.Helper()
	all := rubytest.All(b)
	for _, r := range all {
		if r.Name == "debian-3.1" {
			return r
		}
	}
	b.Logf("Debian's 3.1 is missing; measured on %s", all[0])
	return all[0]
}
