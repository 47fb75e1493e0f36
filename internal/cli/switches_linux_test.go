package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler/live"
)

var programID = regexp.MustCompile(`prog_id:\t(\d+)`)

// programsOf returns the IDs of the BPF programs in the kernel for which a process has descriptors.
func programsOf(t *testing.T, pid int) []ebpf.ProgramID {
	t.Helper()
	infos, err := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	var out []ebpf.ProgramID
	for _, path := range infos {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // the descriptor was closed meanwhile
		}
		if m := programID.FindSubmatch(b); m != nil {
			id, err := strconv.Atoi(string(m[1]))
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, ebpf.ProgramID(id))
		}
	}
	return out
}

// TestSwitchesLeaveWithDdtop: if ddtop is killed, none of its BPF programs stays loaded in the kernel, and the target
// goes on.
func TestSwitchesLeaveWithDdtop(t *testing.T) {
	if err := live.CheckSwitches(); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	p := rubytest.One(t).Start(t, "Thread.new { loop { sleep 0.001 } }; puts 1; $stdout.flush; puts $stdin.gets; $stdout.flush; $stdin.gets", rubytest.Options{})
	p.Line(t)
	cmd, _, _ := prepare(t.Context(), "stat", "-p", strconv.Itoa(p.PID), "-d", "1h", "--source", "switches")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(rubytest.Timeout)
	const all = 4 // the number of programs: at switches, wake-ups and ends of threads, and on the clock
	var ids []ebpf.ProgramID
	for len(ids) < all {
		if ids = programsOf(t, cmd.Process.Pid); time.Now().After(deadline) {
			t.Fatalf("ddtop has the programs %v", ids)
		}
		time.Sleep(time.Millisecond)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // ignore the error: it only says that ddtop was killed
	for _, id := range ids {
		for {
			program, err := ebpf.NewProgramFromID(id)
			if err != nil {
				break
			}
			program.Close()
			if time.Now().After(deadline) {
				t.Fatalf("program %d is still in the kernel", id)
			}
			time.Sleep(time.Millisecond) // the kernel removes the program a moment later
		}
	}
	p.Send(t, "alive")
	p.Expect(t, "alive")
}

// TestStatSaysSource: the JSON of stat says by which source ddtop followed the threads, such as thread switches.
func TestStatSaysSource(t *testing.T) {
	if err := live.CheckSwitches(); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	p := rubytest.One(t).Start(t, "Thread.new { loop { sleep 0.001 } }; puts 1; $stdout.flush; $stdin.gets", rubytest.Options{})
	p.Line(t)
	for _, source := range []string{"auto", "polling", "switches"} {
		r := run(t, "stat", "-p", strconv.Itoa(p.PID), "-d", "1s", "--json", "--source", source)
		r.want(t, 0)
		var stat struct {
			Source struct {
				Kind, Why string
				Records   uint64
			}
		}
		if err := json.Unmarshal([]byte(r.out), &stat); err != nil {
			t.Fatal(err)
		}
		want := "switches"
		if source == "polling" {
			want = source
		}
		if s := stat.Source; s.Kind != want || s.Why != "" || (s.Records > 0) != (want == "switches") {
			t.Errorf("--source %s: %+v", source, s)
		}
	}
	run(t, "stat", "-p", strconv.Itoa(p.PID), "--source", "guess").want(t, 2, `"guess" is not one of auto, switches, moved and polling`)
	run(t, "stat", "-p", strconv.Itoa(p.PID), "--source", "switches", "--pause").want(t, 2, "--source switches does not go with --pause")
}

// TestSwitchesTwice: two ddtops follow the same process by thread switches at the same time. Neither of them loses a
// record.
func TestSwitchesTwice(t *testing.T) {
	if err := live.CheckSwitches(); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	p := rubytest.One(t).Start(t, "Thread.new { loop { sleep 0.001 } }; puts 1; $stdout.flush; $stdin.gets", rubytest.Options{})
	p.Line(t)
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			r := run(t, "stat", "-p", strconv.Itoa(p.PID), "-d", "1s", "--json")
			r.want(t, 0)
			var stat struct {
				Source struct {
					Kind, Why     string
					Records, Lost uint64
				}
			}
			if err := json.Unmarshal([]byte(r.out), &stat); err != nil {
				t.Error(err)
			}
			if s := stat.Source; s.Kind != "switches" || s.Why != "" || s.Records == 0 || s.Lost != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
	both.Wait()
}
