package findingstest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/report"
)

// burnerNice is the priority of the processes that burn starts. With it they get three times as much CPU time as other
// processes, so the finding names them first.
const burnerNice = -5

// burn starts one process named burner for each CPU. These processes compute until the test ends. burn returns their
// PIDs.
func burn(t *testing.T) (pids []int) {
	t.Helper()
	shell, err := exec.LookPath("sh")
	if err != nil {
		rubytest.Skip(t, "%v", err)
	}
	burner := filepath.Join(t.TempDir(), "burner")
	if err := os.Symlink(shell, burner); err != nil {
		t.Fatal(err)
	}
	for range runtime.NumCPU() {
		cmd := exec.Command(burner, "-c", "while :; do :; done")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill() // fails only if the process has ended by itself
			_ = cmd.Wait()         // the error says that the process was killed
		})
		if err := unix.Setpriority(unix.PRIO_PROCESS, cmd.Process.Pid, burnerNice); err != nil {
			rubytest.Skip(t, "a higher priority: %v", err)
		}
		pids = append(pids, cmd.Process.Pid)
	}
	return pids
}

// taker matches what a finding says about the processes that burn started. The groups of the expression match the PID
// of one of these processes, and how many CPUs they use.
var taker = regexp.MustCompile(`burner \((?:\d+ processes, most of it )?PID (\d+)\) ([\d.]+)`)

// TestCPUTakers: if a process lacks a CPU, the finding names the processes that use the CPUs, and how much they use. By
// the kernel's counters they use at most three times as much. The finding names neither the process itself nor ddtop.
func TestCPUTakers(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.Long(t)
	each(t, func(t *testing.T, r rubytest.Ruby) {
		p := load(t, r, "starved/worker")
		defer p.Stop(t)
		pids := burn(t)
		p.begin(t)
		used, began := make(map[int]time.Duration), time.Now()
		for _, pid := range pids {
			used[pid] = rubytest.CPUTime(t, pid)
		}
		named := func(f report.StatFinding) bool { return f.ID == "cpu_starved" && taker.MatchString(f.Text) }
		s := watch(t, p.PID, nil, raiseTime, named, nil)
		checkRaised(t, s, "cpu_starved", raised{words: []string{"; other processes take ", " of the machine's " + strconv.Itoa(runtime.NumCPU()) + " CPU"}})
		f, _ := s.finding("cpu_starved")
		m := taker.FindStringSubmatch(f.Text)
		if m == nil {
			rubytest.TooSeldomNow(t, "%s: it names no burner", f.Text)
		}
		pid, _ := strconv.Atoi(m[1])
		cpus, _ := strconv.ParseFloat(m[2], 64)
		had := 0.0
		for _, pid := range pids {
			had += (rubytest.CPUTime(t, pid) - used[pid]).Seconds() / time.Since(began).Seconds()
		}
		if !slices.Contains(pids, pid) || cpus < had/3 {
			t.Errorf("%s: burners %v used %.2f CPUs", f.Text, pids, had)
		}
		if strings.Contains(f.Text, fmt.Sprintf("(PID %d)", p.PID)) || strings.Contains(f.Text, fmt.Sprintf("(PID %d)", os.Getpid())) {
			t.Errorf("%s: it names the process itself, or ddtop", f.Text)
		}
	})
}
