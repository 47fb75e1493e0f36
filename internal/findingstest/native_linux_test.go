package findingstest

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// TestNativeWithoutCPU: threads work outside the GVL and lack a CPU. ddtop must report them. The test has two
// processes. One is in a container whose CPU time is limited. The other one has four threads but may use only one CPU.
func TestNativeWithoutCPU(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.Long(t)
	outside := "threads outside the GVL had no CPU for"
	for _, c := range []struct {
		name  string
		words []string
		limit func(t *testing.T, p *program)
	}{
		{"throttled", []string{outside, "the container was throttled in", " of its periods (limit: 0.2 CPUs)"}, limitCPU},
		{"one CPU", []string{outside}, pinToOneCPU},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, r rubytest.Ruby) {
				p := load(t, r, "native/deflate")
				defer p.Stop(t)
				c.limit(t, p)
				p.begin(t)
				want := raised{words: c.words}
				checkRaised(t, watch(t, p.PID, nil, raiseTime, says("cpu_starved", want.words), nil), "cpu_starved", want)
			})
		})
	}
}

// pinToOneCPU lets a program use only one CPU. Call it before the method begin of the program. Until then the program
// has only its main thread, and its later threads inherit the limit.
func pinToOneCPU(t *testing.T, p *program) {
	t.Helper()
	var mask unix.CPUSet
	if err := unix.SchedGetaffinity(p.PID, &mask); err != nil {
		t.Fatal(err)
	}
	for cpu := range 64 * len(mask) {
		if mask.IsSet(cpu) {
			mask.Zero()
			mask.Set(cpu)
			break
		}
	}
	if err := unix.SchedSetaffinity(p.PID, &mask); err != nil {
		t.Fatal(err)
	}
}
