package rubytest

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestParkedStaysParked: a program with parked threads reports its stacks before and after a garbage collection. Since
// its threads stay parked, both reports must be equal.
func TestParkedStaysParked(t *testing.T) {
	Each(t, func(t *testing.T, r Ruby) {
		p, truth := r.StartParked(t, Options{})
		if truth.Ruby != r.Version || truth.PID != p.PID {
			t.Errorf("truth of Ruby %s, pid %d; started %s, pid %d", truth.Ruby, truth.PID, r, p.PID)
		}
		if len(truth.Threads) < 200 {
			t.Errorf("only %d threads", len(truth.Threads))
		}
		seen := make(map[string]bool)
		for _, thread := range truth.Threads {
			if thread.Name == "" || seen[thread.Name] {
				t.Errorf("thread name %q is empty or not unique", thread.Name)
			}
			seen[thread.Name] = true
			if thread.Status != "sleep" && thread.Status != "sleep_forever" {
				t.Errorf("%s: status %q", thread.Name, thread.Status)
			}
			if len(thread.Frames) == 0 {
				t.Errorf("%s: no frames", thread.Name)
			}
			if thread.TID == 0 && !strings.HasPrefix(thread.Name, "unnamed") {
				t.Errorf("%s: no native thread id", thread.Name)
			}
			if thread.TID != 0 {
				if _, err := os.Stat(fmt.Sprintf("/proc/%d/task/%d", p.PID, thread.TID)); err != nil {
					t.Errorf("%s: %v", thread.Name, err)
				}
			}
		}
		if main, ok := truth.Thread("main"); !ok || !main.Main || main.TID != int32(p.PID) {
			t.Errorf("main thread: %+v", main)
		}
		if deep, ok := truth.Thread("recursion 1000"); !ok || len(deep.Frames) < 1000 {
			t.Errorf("recursion 1000: %d frames", len(deep.Frames))
		}
		if nested, ok := truth.Thread("nested fibers"); !ok || r.AtLeast(3, 0) && len(nested.Fibers) != 3 {
			t.Errorf("nested fibers: %+v", nested)
		}
		if again := p.Retell(t, "gc"); !reflect.DeepEqual(truth, again) {
			t.Error("the second truth differs from the first")
		}
	})
}

func TestRactorsPark(t *testing.T) {
	Each(t, func(t *testing.T, r Ruby) {
		p, truth := r.StartRactors(t, Options{})
		byRactor := make(map[int][]string)
		for _, thread := range truth.Threads {
			byRactor[thread.Ractor] = append(byRactor[thread.Ractor], thread.Name)
			if len(thread.Frames) == 0 || thread.Frames[0].Path == nil || *thread.Frames[0].Path == "" {
				t.Errorf("%s: frames %+v", thread.Name, thread.Frames)
			}
		}
		if len(byRactor) != 3 || len(truth.Threads) != 9 {
			t.Errorf("threads by ractor: %v", byRactor)
		}
		if main, ok := truth.Thread("first-main"); !ok || !main.Main || main.Ractor != 1 {
			t.Errorf("main thread: %+v", main)
		}
		if truth.PID != p.PID {
			t.Errorf("pid %d, started %d", truth.PID, p.PID)
		}
	})
}

func TestStatesAreThere(t *testing.T) {
	Each(t, func(t *testing.T, r Ruby) {
		p, said := r.StartStates(t, Options{}, GroupSpin, GroupGC, GroupNative, GroupStalled, GroupDeadlock)
		all := []string{"running", "stalled", "gc", "waiting", "native", "io", "lock", "parked", "sleeping"}
		seen := make(map[string]bool)
		for _, thread := range said.Threads {
			for _, s := range thread.States {
				if !slices.Contains(all, s) {
					t.Errorf("%s: unknown state %q", thread.Name, s)
				}
				seen[s] = true
			}
			noTID := thread.Name == "detach" && !r.AtLeast(3, 1)
			if thread.TID == 0 && !noTID || len(thread.States) == 0 || len(thread.Must) == 0 {
				t.Errorf("thread says too little: %+v", thread)
			}
			if thread.Holder != "" {
				if _, ok := said.Thread(thread.Holder); !ok {
					t.Errorf("%s: no holder %s", thread.Name, thread.Holder)
				}
			}
			checkKernel(t, p, thread)
		}
		for _, s := range all {
			if !seen[s] {
				t.Errorf("no thread is %s", s)
			}
		}
	})
}

// checkKernel compares what the program reports about a thread with what the kernel reports about it.
func checkKernel(t *testing.T, p *Process, thread StateTruth) {
	t.Helper()
	proc := fmt.Sprintf("/proc/%d", p.PID)
	if _, err := os.Stat(fmt.Sprintf("%s/task/%d", proc, thread.TID)); err != nil && thread.TID != 0 {
		t.Errorf("%s: %v", thread.Name, err)
	}
	kinds := map[string]string{"pipe": "pipe:", "tcp": "socket:", "udp": "socket:", "unix": "socket:", "listener": "socket:"}
	for _, fd := range thread.FDs {
		link, err := os.Readlink(filepath.Join(proc, "fd", fmt.Sprint(fd)))
		if err != nil || !strings.HasPrefix(link, kinds[thread.Kind]) {
			t.Errorf("%s: descriptor %d leads to %q (%v), want a %s", thread.Name, fd, link, err, thread.Kind)
		}
	}
	if thread.Child != 0 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", thread.Child))
		if err != nil || !strings.Contains(string(stat), fmt.Sprintf(" %d ", p.PID)) {
			t.Errorf("%s: %d is not a child of %d: %s (%v)", thread.Name, thread.Child, p.PID, stat, err)
		}
	}
}
