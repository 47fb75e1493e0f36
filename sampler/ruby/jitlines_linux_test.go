package ruby

import (
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rerun"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// jitLines computes in a loop behind a call, and makes garbage in another method. The lines count from 1.
const jitLines = `def callee(x)
  x.to_s
end
def compute(n)
  callee(n)
  i = 0
  while i < n
    i += 1
  end
  i
end
def litter(n)
  i = 0
  while i < n
    x = [i]
    i += 1
  end
end
RubyVM::YJIT.enable if ARGV[0] == "later"
100.times { compute(3); litter(3) }
puts "ready"; $stdout.flush
kept = Array.new(100_000) { [] }
loop { compute(100_000); litter(100_000) }`

// Lines of jitLines.
const (
	jitLinesCall   = 5
	jitLinesLitter = 15
)

// TestLinesUnderJIT samples code that computes long after a call. Compiled, its frame still says the call's line, which must
// not be believed; in the collector, where compiled code has written its line, it must be.
func TestLinesUnderJIT(t *testing.T) {
	rerun.Never(t, "a line that is shown as certain and is not the one executed is a defect")
	rubytest.EachBuild(t, func(t *testing.T, r rubytest.Ruby) {
		variants := r.Variants(t)
		if r.AtLeast(3, 3) && r.HasJIT(t, "yjit") {
			variants = append(variants, rubytest.Variant{Name: "later"})
		}
		for _, v := range variants {
			t.Run(v.Name, func(t *testing.T) {
				p := r.Start(t, jitLines, v.Apply(rubytest.Options{Args: []string{v.Name}}))
				p.Expect(t, "ready")
				compiled := v.Name != "plain" && v.Name != "mn"
				sampleJITLines(t, openReader(t, p.PID), compiled, r.AtLeast(3, 0) && !(compiled && !r.AtLeast(3, 2)))
			})
		}
	})
}

// sampleJITLines looks until enough was seen. exact: the release's innermost frames can be trusted without a JIT.
func sampleJITLines(t *testing.T, rd *Reader, compiled, exact bool) {
	const enough = 200
	var s sampler.Sample
	certain := map[int32]int{} // in compute, by line
	computing, uncertain, collecting, litter := 0, 0, 0, 0
	for began := time.Now(); computing < enough || collecting < enough/10; {
		if time.Since(began) > 2*time.Minute {
			t.Fatalf("in two minutes %d samples of the loop and %d of the collector were seen", computing, collecting)
		}
		time.Sleep(200 * time.Microsecond) // spreads the samples; nothing waits for it
		if err := rd.Read(sampler.StackTick, &s); err != nil {
			t.Fatal(err)
		}
		for i := range s.Threads {
			th := &s.Threads[i]
			if th.Stack == 0 || th.Quality&(sampler.StackFailed|sampler.StackPartial) != 0 {
				continue
			}
			_, id := rd.dict.Stack(th.Stack)
			f := rd.dict.Frame(id)
			switch {
			case f.Name == "compute" && !s.GC.During:
				computing++
				if f.Uncertain {
					uncertain++
				} else {
					certain[f.Line]++
				}
			case f.Name == "litter" && s.GC.During:
				collecting++
				if !f.Uncertain && f.Line == jitLinesLitter {
					litter++
				}
			}
		}
	}
	t.Logf("%d samples of the loop, %d uncertain, certain by line %v; %d in the collector, %d with their line", computing, uncertain, certain, collecting, litter)
	switch {
	case compiled && certain[jitLinesCall] > 0:
		t.Errorf("%d of %d samples claim line %d, which calls and is over in no time", certain[jitLinesCall], computing, jitLinesCall)
	case !compiled && exact && uncertain > 0:
		t.Errorf("%d of %d samples of interpreted code are called uncertain", uncertain, computing)
	case !compiled && certain[jitLinesCall] > computing/20:
		t.Errorf("%d of %d samples of the loop show the call before it", certain[jitLinesCall], computing)
	}
	// A cycle may begin or end between the look at the flag and that at the frames.
	if exact && litter < collecting*9/10 {
		t.Errorf("of %d samples in the collector %d have the line that allocates", collecting, litter)
	}
}
