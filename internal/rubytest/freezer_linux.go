package rubytest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Freezer stops (freezes) and continues (thaws) all threads of a process by a cgroup.
type Freezer struct {
	file, freeze, thaw string
	// state is the path of a file that shows whether the whole cgroup is frozen. The field frozen is the file's line if
	// the cgroup is frozen, and thawed is the line if it is not.
	state, frozen, thawed string
}

// NewFreezer puts a process into a new cgroup, inside another new cgroup. Freeze freezes the outer cgroup. If v2 is
// true, both cgroups are in the hierarchy v2, otherwise in the freezer controller of v1. The test is skipped if this is
// not possible.
func NewFreezer(t testing.TB, pid int, v2 bool) *Freezer {
	t.Helper()
	point := freezerMount(t, v2)
	if point == "" {
		Skip(t, "no cgroups that can be frozen are mounted (v2: %v)", v2)
	}
	parent := filepath.Join(point, fmt.Sprintf("ddtop-freezer-%d-%d", os.Getpid(), pid))
	dir := filepath.Join(parent, "inner")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		Skip(t, "a cgroup: %v", err)
	}
	f := &Freezer{
		file: filepath.Join(parent, "cgroup.freeze"), freeze: "1", thaw: "0",
		state: filepath.Join(dir, "cgroup.events"), frozen: "frozen 1", thawed: "frozen 0",
	}
	if !v2 {
		f = &Freezer{
			file: filepath.Join(parent, "freezer.state"), freeze: "FROZEN", thaw: "THAWED",
			state: filepath.Join(dir, "freezer.state"), frozen: "FROZEN", thawed: "THAWED",
		}
	}
	t.Cleanup(func() {
		f.Thaw(t)
		// When a process leaves a cgroup, or is killed, it still counts as a member of the cgroup for a moment. During
		// this moment, the cgroup cannot be removed.
		_ = os.WriteFile(filepath.Join(point, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
		for _, d := range []string{dir, parent} {
			for end := time.Now().Add(Timeout); os.Remove(d) != nil; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%s can't be removed", d)
				}
			}
		}
	})
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
		Skip(t, "move process %d into a cgroup: %v", pid, err)
	}
	return f
}

// freezerMount returns where the cgroup hierarchy (v2, or the freezer of v1) is mounted. It returns "" if it is not
// mounted.
func freezerMount(t testing.TB, v2 bool) string {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		left, right, _ := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if len(l) < 5 || len(r) < 3 {
			continue
		}
		if v2 && r[0] == "cgroup2" || !v2 && r[0] == "cgroup" && slices.Contains(strings.Split(r[2], ","), "freezer") {
			return l[4]
		}
	}
	return ""
}

// Freeze freezes the parent of the process's cgroup, and returns when all threads of the process are frozen.
func (f *Freezer) Freeze(t testing.TB) { t.Helper(); f.set(t, f.freeze, f.frozen) }

// Thaw lets the process go on, and returns when it is thawed.
func (f *Freezer) Thaw(t testing.TB) { t.Helper(); f.set(t, f.thaw, f.thawed) }

func (f *Freezer) set(t testing.TB, value, want string) {
	t.Helper()
	if err := os.WriteFile(f.file, []byte(value), 0); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(Timeout); ; time.Sleep(time.Millisecond) {
		b, err := os.ReadFile(f.state)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(strings.Split(string(b), "\n"), want) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s says %q, not %q", f.state, b, want)
		}
	}
}
