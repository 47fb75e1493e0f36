package foreigntest

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/rubytest"
	"golang.org/x/sys/unix"
)

// TestContainer: ddtop reads a Ruby that has its own PID namespace, mount namespace, root and /proc, like a container.
// One ddtop runs outside, and uses the PID that the Ruby has outside. Another ddtop runs inside, and uses the PID that
// the Ruby has inside. ddtop must search for a debug file below the Ruby's own root. To prove this, the folder of debug
// files exists only in the Ruby's mount namespace.
func TestContainer(t *testing.T) {
	rubytest.Each(t, func(t *testing.T, r rubytest.Ruby) {
		if r.Root == "" {
			return // the test needs a Ruby with its own root
		}
		library, buildID := libraryOf(t, r)
		p, truth := r.StartParked(t, rubytest.Options{
			OwnPIDs: true, OwnMounts: true,
			Wrap: []string{"/proc/self/exe", r.Root, library, buildID},
			Env:  []string{helperMode + "=enter"},
		})
		pid := childOf(t, p.PID)
		// PIDs are low in the new namespace. The helper process and its threads have the first PIDs, and the Ruby has
		// one of the next PIDs.
		if truth.PID < 2 || truth.PID > 50 || pid == truth.PID {
			t.Errorf("it is process %d here and says it is %d, want one of the first of its namespace", pid, truth.PID)
		}

		outside := lookAt(pid, truth)
		outside.report(t, "from outside")
		if outside.FromMemory || outside.Deleted {
			t.Errorf("its file is read from memory (%t) or called deleted (%t)", outside.FromMemory, outside.Deleted)
		}
		if outside.Process.PID != pid || outside.Process.Title != "parked.rb" {
			t.Errorf("it is called process %d, %s", outside.Process.PID, outside.Process.Title)
		}
		if want := filepath.Join("/proc", itoa(pid), "root", debugFolder); !strings.Contains(outside.DebugError, want) ||
			!strings.Contains(outside.DebugError, ".debug has none") {
			t.Errorf("its debug information: %q, want the file below %s", outside.DebugError, want)
		}

		inside := askInside(t, p, truth)
		inside.report(t, "from inside")
		if inside.Process.PID != truth.PID || inside.InnerTID[int32(truth.PID)] != int32(truth.PID) {
			t.Errorf("a ddtop beside it calls it process %d, with threads %v; it says %d", inside.Process.PID, inside.InnerTID, truth.PID)
		}
	})
}

// TestFirstProcess: ddtop reads a Ruby that is process 1 of its PID namespace, like the only program of a container.
// The IDs of its threads are small numbers. ddtop finds a thread's ID by a search in memory. Many other small numbers
// are in memory, and ddtop must not mistake one of them for the ID.
func TestFirstProcess(t *testing.T) {
	rubytest.Long(t)
	rubytest.Each(t, func(t *testing.T, r rubytest.Ruby) {
		p, truth := r.StartParked(t, rubytest.Options{OwnPIDs: true})
		if truth.PID != 1 {
			t.Fatalf("it says it is process %d", truth.PID)
		}
		f := lookAt(p.PID, truth)
		f.report(t, "from outside")
		if f.InnerTID[int32(p.PID)] != 1 {
			t.Errorf("its main thread is %d to itself", f.InnerTID[int32(p.PID)])
		}
	})
}

// libraryOf returns the path of a Ruby's library, below the Ruby's root folder, and the library's build ID.
func libraryOf(t *testing.T, r rubytest.Ruby) (path, buildID string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(r.Root, "usr/lib/*/libruby*.so."+r.Version))
	if err != nil || len(found) != 1 {
		t.Fatalf("the library of %s: %v, %v", r, found, err)
	}
	m, err := attach.OpenFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if m.BuildID == "" {
		t.Fatalf("%s has no build id", found[0])
	}
	return found[0], m.BuildID
}

// childOf returns the PID of the Ruby that a process has started. It searches the list of processes that ddtop makes.
func childOf(t *testing.T, parent int) int {
	t.Helper()
	list, err := attach.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(c attach.Candidate) bool { return c.PPID == parent && c.Title == "parked.rb" })
	if i < 0 {
		t.Fatalf("no Ruby that process %d has started is in the list %+v", parent, list)
	}
	if list[i].Err != nil {
		t.Errorf("the list says %v", list[i].Err)
	}
	return list[i].PID
}

// askInside lets the helper process inside the namespaces read the program, and returns the helper's result.
func askInside(t *testing.T, p *rubytest.Process, truth rubytest.Truth) found {
	t.Helper()
	text, err := json.Marshal(truth)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.HostDir, askFile), text, 0o644); err != nil {
		t.Fatal(err)
	}
	p.Signal(t, unix.SIGUSR1)
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for deadline := time.Now().Add(2 * rubytest.Timeout); ; <-poll.C {
		text, err = os.ReadFile(filepath.Join(p.HostDir, answerFile))
		if err == nil {
			break
		}
		if !errors.Is(err, os.ErrNotExist) || time.Now().After(deadline) {
			t.Fatalf("no answer from inside: %v; %s", err, p.Stderr())
		}
	}
	var f found
	if err := json.Unmarshal(text, &f); err != nil {
		t.Fatal(err)
	}
	return f
}
