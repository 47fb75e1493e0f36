package ruby

import (
	_ "embed"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
)

//go:embed testdata/calls.rb
var callsProgram string

// leastKinds is the least number of kinds of calls that the test program must make. Some kinds exist only in newer
// releases.
const leastKinds = 85

// TestKindsOfCalls: for each frame, ddtop checks whether the next outer frame can have called it. For every kind of
// call in Ruby, this check must succeed. The test decodes stacks with the checks for running threads. It needs real
// processes, because only they show which instructions and method entries a release uses for these calls.
func TestKindsOfCalls(t *testing.T) {
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, callsProgram, rubytest.Options{})
		kinds, err := strconv.Atoi(strings.Fields(p.Expect(t, "ready "))[1])
		if err != nil {
			t.Fatal(err)
		}
		rd := openReader(t, p.PID)
		rd.stacks.decode = func(raw *code.Stack) (sampler.StackID, code.Info, error) {
			raw.Racing = true
			return rd.dec.Decode(raw)
		}
		var s sampler.Sample
		if err := rd.Read(sampler.StackTick, &s); err != nil {
			t.Fatal(err)
		}
		named := 0
		for i := range s.Threads {
			th := &s.Threads[i]
			info, _ := rd.dict.Thread(th.ID)
			var frames []string
			for _, id := range rd.dict.Frames(th.Stack, nil) {
				frames = append(frames, rd.dict.Frame(id).Label)
			}
			if th.Quality != sampler.StackFresh {
				t.Errorf("thread %q has only %v (quality %b)", info.Name, frames, th.Quality)
			}
			if info.Name != "" {
				named++
			}
		}
		if named < kinds || kinds < leastKinds {
			t.Errorf("%d threads with a name of %d, want at least %d", named, kinds, leastKinds)
		}
	})
}

// TestCallsOfStopped: the test stops programs at random moments, also with each JIT. It decodes their stacks with the
// checks for running threads. Nothing changes in a stopped program, so ddtop must find that each frame was called by
// the next outer frame.
func TestCallsOfStopped(t *testing.T) {
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		for _, v := range r.Variants(t) {
			if v.Name == "mn" {
				continue
			}
			for _, program := range []string{"20", "pace", "shared", "blocks", "sent", "raise"} {
				t.Run(v.Name+" "+program, func(t *testing.T) {
					p := r.Start(t, chainsProgram, v.Apply(rubytest.Options{Args: []string{program}}))
					p.Expect(t, "ready")
					rd := openReader(t, p.PID)
					rd.stacks.decode = func(raw *code.Stack) (sampler.StackID, code.Info, error) {
						raw.Racing = true
						return rd.dec.Decode(raw)
					}
					seen := readStopped(t, p, rd)
					if rd.stacks.ways[wayDoubt]+rd.stacks.ways[wayBelieved] != 0 || seen < stops/10 {
						t.Errorf("%d different stacks in %d stops, ways %s", seen, stops, rd.stacks.waysTaken())
					}
				})
			}
		}
	})
}

// stops is how often each program is stopped.
const stops = 50

// readStopped stops a process again and again, reads its stacks, and returns how many different stacks it has read.
func readStopped(t *testing.T, p *rubytest.Process, rd *Reader) int {
	var s sampler.Sample
	ids := map[sampler.StackID]bool{}
	for range stops {
		p.Signal(t, syscall.SIGSTOP)
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.PID))
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
			if tid, err := strconv.Atoi(task.Name()); err == nil {
				waitStopped(t, tid)
			}
		}
		if err := rd.Read(sampler.StackTick, &s); err != nil {
			t.Fatal(err)
		}
		for i := range s.Threads {
			ids[s.Threads[i].Stack] = true
		}
		p.Signal(t, syscall.SIGCONT)
		time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
	}
	return len(ids)
}
