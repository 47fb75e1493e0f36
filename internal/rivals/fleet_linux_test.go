package rivals

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
)

const (
	// fleetRounds is how often BenchmarkFleet measures each version. fleetWarm is the time before each measurement, in
	// which ddtop attaches. fleetLength is the length of a measurement.
	fleetRounds            = 6
	fleetWarm, fleetLength = 12 * time.Second, 25 * time.Second
	// clockTicks is the number of clock ticks per second, the unit of CPU time in /proc/PID/stat (proc_pid_stat(5)).
	clockTicks = 100
)

// BenchmarkFleet measures `ddtop push --children` with fifty worker processes that wake up twenty times a second. It
// reports ddtop's CPU time in percent of a CPU, its memory in MB, and its number of descriptors. Versions of ddtop are
// measured in turns.
func BenchmarkFleet(b *testing.B) {
	p := theRuby(b).Start(b, forkedScript, rubytest.Options{})
	p.Expect(b, "up")
	all := versions(b)
	for range b.N {
		figures := make(map[string][]float64)
		for range pairsWanted(b, fleetRounds) {
			for _, v := range all {
				for name, value := range pushBeside(b, v.path, p.PID) {
					figures[v.name+"-"+name] = append(figures[v.name+"-"+name], value)
				}
			}
		}
		b.ReportMetric(0, "ns/op") // suppresses ns/op, which means nothing because the length of a run is fixed
		for name, values := range figures {
			b.ReportMetric(median(values), name)
		}
	}
}

// pushBeside runs `ddtop push --children` once on a process, and returns the figures of this run.
func pushBeside(b *testing.B, path string, pid int) map[string]float64 {
	b.Helper()
	var said bytes.Buffer
	cmd := exec.Command(path, "push", "-p", strconv.Itoa(pid), "--children", "--to", "file://"+b.TempDir())
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	time.Sleep(fleetWarm)
	began, before := time.Now(), ticksOf(b, cmd.Process.Pid)
	time.Sleep(fleetLength)
	share := (ticksOf(b, cmd.Process.Pid) - before) / clockTicks / time.Since(began).Seconds()
	size := ownMemory(b, cmd.Process.Pid)
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", cmd.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		b.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		b.Fatalf("%v\n%s", err, said.Bytes())
	}
	if n := bytes.Count(said.Bytes(), []byte("msg=following")); n <= forkedWorkers {
		b.Fatalf("push has followed %d processes:\n%s", n, said.Bytes())
	}
	return map[string]float64{"%": 100 * share, "MB": size, "files": float64(len(files))}
}

// ownMemory returns the memory of a process that is not backed by a file (RssAnon), in MB.
func ownMemory(b *testing.B, pid int) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, after, _ := bytes.Cut(text, []byte("\nRssAnon:"))
	var size float64
	if _, err := fmt.Sscan(string(after), &size); err != nil {
		b.Fatal(err)
	}
	return size / 1024
}

// ticksOf returns the CPU time of a process, user and system, in clockTicks.
func ticksOf(b *testing.B, pid int) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	var user, system float64
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if _, err := fmt.Sscan(string(bytes.Join(fields[11:13], []byte(" "))), &user, &system); err != nil {
		b.Fatal(err)
	}
	return user + system
}
