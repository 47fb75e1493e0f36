package ruby

import (
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/odds"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// jitLines is a program that calls a method and then computes in a loop for a long time. Another method of the program
// makes garbage. The first line of the text is line 1.
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

// These are lines of jitLines.
const (
	jitLinesCall   = 5
	jitLinesLitter = 15
)

// TestLinesUnderJIT: compiled code does not store its line number at each step. If it computes for long after a call,
// its frame still has the line of the call. ddtop must mark this line as uncertain. Before the collector runs, compiled
// code does store its line. Then ddtop must trust the line.
func TestLinesUnderJIT(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
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

const (
	// callShare is an upper bound for the call's share of the loop's time. A round of 100,000 turns takes milliseconds,
	// and the call less than a microsecond.
	callShare = 1e-3
	// interruptedShare is an upper bound for the share of samples that are interrupted. In such a sample, another
	// program gets the CPU of the sampler or of Ruby during the sample's few microseconds. The collector can then end
	// and begin again within the sample.
	interruptedShare = .05
)

// sampleJITLines takes samples until it has seen enough. exact is true if, without a JIT, this release's innermost
// frames can be trusted.
//
// A sample is used only if the kernel reports that the thread has had a CPU since the last used sample. Otherwise the
// test would see a thread without a CPU at the same place in many samples. The places of the samples are independent,
// because the thread's rounds have no rhythm in common with the kernel's clock.
func sampleJITLines(t *testing.T, rd *Reader, compiled, exact bool) {
	const enough = 200
	var s sampler.Sample
	certain := map[int32]int{} // number of samples in the method compute, by line
	computing, uncertain, collecting, litter := 0, 0, 0, 0
	ran := time.Duration(-1)
	for began := time.Now(); computing < enough || collecting < enough/10; {
		if time.Since(began) > rubytest.Timeout {
			rubytest.TooSeldomNow(t, "in %v %d samples of the loop and %d of the collector were seen", rubytest.Timeout, computing, collecting)
		}
		time.Sleep(200 * time.Microsecond) // so that the samples are at different places of the program
		before := rubytest.CPUTime(t, rd.pid)
		if before == ran {
			continue
		}
		if err := rd.Read(sampler.StackTick, &s); err != nil {
			t.Fatal(err)
		}
		ran = before
		// The sample shows whether the collector ran before the frames were read. The test asks again after the frames
		// were read. It uses the sample only if both answers are the same.
		if s.GC.During != collects(t, rd) {
			continue
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
	case !compiled && certain[jitLinesCall] > odds.AtMost(computing, callShare):
		t.Errorf("%d of %d samples of the loop show the call before it", certain[jitLinesCall], computing)
	}
	if least := odds.AtLeast(collecting, 1-interruptedShare); exact && litter < least {
		t.Errorf("of %d samples in the collector %d have the line that allocates, want %d", collecting, litter, least)
	}
}

// collects reports whether the collector works now.
func collects(t *testing.T, rd *Reader) bool {
	t.Helper()
	batch := rd.gc.PlanAfter(rd.gc.PlanBefore(nil))
	if _, err := rd.mem.ReadBatch(batch); err != nil {
		t.Fatal(err)
	}
	var now sampler.GC
	rd.gc.Take(batch, &now)
	return now.During
}
