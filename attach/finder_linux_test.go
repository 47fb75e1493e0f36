package attach_test

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/ddtop/ddtop/attach"
)

// TestFinder: Find returns a process once the process has a title that matches. It does not return a process that the
// caller knows already, or whose title matched only in the past.
func TestFinder(t *testing.T) {
	start := func(name string) *exec.Cmd {
		cmd := exec.Command("/bin/sleep", "1000")
		cmd.Args[0] = name
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill() // the process may have been killed already
			_ = cmd.Wait()
		})
		return cmd
	}
	const name = "finder-test: worker 0"
	f := attach.NewFinder(regexp.MustCompile(`^finder-test: worker \d+ 1000$`).MatchString)
	none := func(int) bool { return false }
	find := func(known func(int) bool) []int {
		t.Helper()
		found, err := f.Find(known)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if found := find(none); len(found) != 0 {
		t.Fatalf("found %v before there was one", found)
	}
	one := start(name)
	start("finder-test: another")
	pid := one.Process.Pid
	// The loop repeats the search, because the process may not have called exec yet. A search that runs out of time
	// also leaves processes to the next search.
	for _, when := range []string{"the first time", "the second time"} {
		for deadline := time.Now().Add(5 * time.Minute); !slices.Equal(find(none), []int{pid}); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: found %v, want %d", when, find(none), pid)
			}
		}
	}
	if found := find(func(p int) bool { return p == pid }); len(found) != 0 {
		t.Errorf("known: %v", found)
	}
	if err := one.Process.Signal(os.Kill); err != nil {
		t.Fatal(err)
	}
	_ = one.Wait() // returns an error, because the process was killed
	if found := find(none); len(found) != 0 {
		t.Errorf("after its end: %v", found)
	}
}

// BenchmarkFinder measures a search over a machine's processes when all are known not to match.
func BenchmarkFinder(b *testing.B) {
	f := attach.NewFinder(func(string) bool { return false })
	for b.Loop() {
		if _, err := f.Find(func(int) bool { return false }); err != nil {
			b.Fatal(err)
		}
	}
}
