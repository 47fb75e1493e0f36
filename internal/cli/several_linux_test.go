package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// masterOfTwo is a program that forks two worker processes. The second worker computes all the time. The first line of
// input ends the first worker.
const masterOfTwo = `
$stdout.sync = true
worker = lambda do |name, spins|
  fork do
    STDIN.reopen("/dev/null")
    Thread.new { loop { spins ? 1000.times { |i| i * i } : sleep(0.002) } }.name = name
    sleep
  end
end
first = worker.call("quiet one", false)
second = worker.call("busy one", true)
puts "up #{first} #{second}"
STDIN.gets
Process.kill(:KILL, first)
Process.wait(first)
puts "ended"
STDIN.gets
Process.kill(:KILL, second)
`

// cluster is a running masterOfTwo.
type cluster struct {
	*rubytest.Process
	first, second int
}

func startCluster(t *testing.T) cluster {
	t.Helper()
	c := cluster{Process: rubytest.One(t).Start(t, masterOfTwo, rubytest.Options{})}
	if _, err := fmt.Sscanf(c.Expect(t, "up"), "up %d %d", &c.first, &c.second); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c cluster) pids() []int { return []int{c.PID, c.first, c.second} }

// severalJSON is what a command prints for several processes with --json.
type severalJSON struct {
	Processes []json.RawMessage
	Children  []struct {
		PID, Parent int
		Title       string
		Start       string
		Sampled     bool
		Ended, Why  *string
	}
	Forgotten *int `json:"children_forgotten"`
}

func parseSeveral(t *testing.T, text string) (s severalJSON, pids []int) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatalf("%v in %.300s", err, text)
	}
	if s.Forgotten == nil {
		t.Errorf("children_forgotten is missing")
	}
	for _, p := range s.Processes {
		var one struct{ PID int }
		if err := json.Unmarshal(p, &one); err != nil {
			t.Fatal(err)
		}
		pids = append(pids, one.PID)
	}
	slices.Sort(pids)
	return s, pids
}

func TestChildrenAreMeasured(t *testing.T) {
	rubytest.Long(t)
	t.Parallel()
	c := startCluster(t)
	want := slices.Sorted(slices.Values(c.pids()))
	pid := strconv.Itoa(c.PID)

	dump := run(t, "dump", "-p", pid, "--children", "--json")
	dump.want(t, 0)
	s, got := parseSeveral(t, dump.out)
	if !slices.Equal(got, want) || len(s.Children) != 2 {
		t.Errorf("dumps of %v and %d children, want those of %v", got, len(s.Children), want)
	}
	for _, d := range s.Processes {
		checkKeys(t, string(d), dumpKeys[:7]) // the other keys depend on the threads
	}
	if text := run(t, "dump", "-p", fmt.Sprintf("%d,%d", c.first, c.second)); !strings.Contains(text.out, `"quiet one"`) || !strings.Contains(text.out, `"busy one"`) ||
		strings.Contains(text.out, "pid "+pid) {
		t.Errorf("dumps of two by their PIDs: %s", text.out)
	}

	dir := t.TempDir()
	run(t, "record", "-p", pid, "--children", "-d", "1s", "-o", filepath.Join(dir, "all.pprof")).want(t, 0)
	checkPIDLabels(t, filepath.Join(dir, "all.pprof"), want)
	run(t, "record", "-p", pid, "--children", "-d", "1s", "--format", "ddtop", "-o", filepath.Join(dir, "all.ddtop")).want(t, 0)
	for _, p := range want {
		r := run(t, "report", filepath.Join(dir, fmt.Sprintf("all-%d.ddtop", p)), "--json")
		r.want(t, 0)
		checkStat(t, p, r.out)
	}
	run(t, "record", "-p", pid, "--children", "-d", "1s", "--format", "ddtop", "-o", "-").want(t, 2, "a file each")

	// This must be the last part of the test, because it ends the first worker while stat measures.
	done := make(chan result, 1)
	go func() { done <- run(t, "stat", "-p", pid, "--children", "-d", "3s", "--json") }()
	c.Send(t, "end the first")
	c.Expect(t, "ended")
	stat := <-done
	stat.want(t, 0)
	s, got = parseSeveral(t, stat.out)
	if !slices.Contains(got, c.PID) || !slices.Contains(got, c.second) {
		t.Errorf("measured %v, want %d and %d among them", got, c.PID, c.second)
	}
	for _, p := range s.Processes {
		var one struct{ PID int }
		if err := json.Unmarshal(p, &one); err != nil {
			t.Fatal(err)
		}
		if one.PID == c.second {
			checkStat(t, one.PID, string(p))
		}
	}
	for _, child := range s.Children {
		switch {
		case child.Parent != c.PID || child.Start == "" || child.PID == c.second && (!child.Sampled || child.Ended != nil):
			t.Errorf("%+v", child)
		case child.PID == c.first && (child.Ended == nil || child.Why == nil || !strings.Contains(*child.Why, "exited")):
			t.Errorf("the one that ended: %+v", child)
		}
	}
}

// checkPIDLabels checks that every sample of a profile has the PID of its process as a label, and that every wanted
// process has samples.
func checkPIDLabels(t *testing.T, path string, want []int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	p, err := profile.Parse(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for _, s := range p.Sample {
		if len(s.Label["pid"]) != 1 {
			t.Fatalf("a sample with the labels %v", s.Label)
		}
		pid, err := strconv.Atoi(s.Label["pid"][0])
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(got, pid) {
			got = append(got, pid)
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("samples of %v, want %v", got, want)
	}
	if p.DurationNanos <= 0 || p.DurationNanos > 30e9 {
		t.Errorf("the profile lasts %d ns", p.DurationNanos)
	}
}

func TestCommandsChildrenAreMeasured(t *testing.T) {
	t.Parallel()
	r := rubytest.One(t)
	wants := []string{"worst finding", "left one", "right one", "middle one"}
	got := runLonger(t, func(seconds string) []string {
		return append([]string{"--children", "--"}, rubyCommand(t, r, `
			work = lambda { |name| Thread.new { loop { sleep 0.002 } }.name = name; sleep `+seconds+` }
			pids = %w[left right].map { |name| fork { work.call(name + " one") } }
			work.call("middle one")
			pids.each { |p| Process.wait(p) }
			exit 6`)...)
	}, func(r result) bool {
		return !slices.ContainsFunc(wants, func(want string) bool { return !strings.Contains(r.err, want) })
	})
	if got.code != 6 {
		t.Errorf("exit code %d, want 6; it said %s", got.code, got.err)
	}
	for _, want := range wants {
		if !strings.Contains(got.err, want) {
			t.Errorf("no %q in the tables:\n%s", want, got.err)
		}
	}
}

func TestSeveralProcessesThatCantBeRead(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	run(t, "stat", "-d", "1s", "-p", fmt.Sprintf("%d,%d", c.first, os.Getpid())).want(t, 4, "not a CRuby process", strconv.Itoa(os.Getpid()))
	run(t, "stat", "-d", "1s", "-p", "1,x").want(t, 2, `"x" is not a PID`)
	run(t, "stat", "-d", "1s", "-p", "1,,2").want(t, 2, `"" is not a PID`)
	run(t, "stat", "-d", "1s", "-p", "5,0").want(t, 2, "0 is not a process")
	run(t, "dump", "-p", strconv.Itoa(os.Getpid()), "-p", strconv.Itoa(c.first)).want(t, 4, "not a CRuby process")
}

// TestScreenOfSeveralProcesses: the screen shows the table of processes, then one process, and then the next one. It
// also shows that a process has ended.
func TestScreenOfSeveralProcesses(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	x := inTerminal(t, "-p", strconv.Itoa(c.PID), "--children")
	x.see(t, "3 processes")
	x.see(t, strconv.Itoa(c.second))
	x.press(t, "jjj\r")
	x.see(t, "process 3 of 3")
	x.see(t, "busy one")
	x.press(t, "(")
	x.see(t, "process 2 of 3")
	x.see(t, "quiet one")
	c.Send(t, "end the first")
	c.Expect(t, "ended")
	x.see(t, "exited")
	x.press(t, "8")
	x.see(t, "2 running")
	x.press(t, "q")
	x.leaves(t, 0)
}
