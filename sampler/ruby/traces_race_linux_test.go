package ruby

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// TestRacingSpans: threads open and close spans as fast as they can, while the memory of ended spans is freed or moved.
// ddtop must never show a span of another thread. It must also never show a span and a root of different traces. The
// test can check this because a span's number encodes its thread, its trace and its place in the trace.
func TestRacingSpans(t *testing.T) {
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		for _, v := range r.Variants(t) {
			for _, tracer := range []string{"datadog", "otel"} {
				t.Run(v.Name+" "+tracer, func(t *testing.T) {
					p := r.Start(t, tracesProgram, v.Apply(rubytest.Options{Args: []string{"race", tracer}}))
					p.Expect(t, "ready")
					apart(t, p.PID)
					raceSpans(t, openReader(t, p.PID), raceSamples(t)/8)
				})
			}
		}
	})
}

// raceSpans takes samples until ddtop has found a span for a thread as often as the parameter want says. Enough of
// these spans must differ from the last span of their thread, so that the test really sees changes.
func raceSpans(t *testing.T, rd *Reader, want int) {
	var s sampler.Sample
	in, none, wrong, moved, ticks := 0, 0, 0, 0, 0
	last := make(map[sampler.ThreadID]uint64)
	deadline := time.Now().Add(raceTime)
	for ; (in < want || moved < want/racedShare) && time.Now().Before(deadline); ticks++ {
		if rd.Read(sampler.StackTick, &s) != nil {
			continue
		}
		for i := range s.Threads {
			th := &s.Threads[i]
			info, _ := rd.dict.Thread(th.ID)
			tag, racer := strings.CutPrefix(info.Name, "racer ")
			span, root := th.Serving.Span, th.Serving.RootSpan
			if span == 0 && root == 0 {
				if racer {
					none++
				}
				continue
			}
			in++
			if span != last[th.ID] {
				moved++
				last[th.ID] = span
			}
			number, _ := strconv.Atoi(tag)
			if racer && span>>40 != uint64(number) || span>>8 != root>>8 || root&0xff != 0 || span&0xff > 3 {
				if wrong++; wrong < 10 {
					t.Errorf("thread %q is in span %#x of %#x", info.Name, span, root)
				}
			}
		}
	}
	t.Logf("%d ticks: %d times in a span, %d other than the last, %d times in none, %d wrong", ticks, in, moved, none, wrong)
	if moved < want/racedShare {
		t.Errorf("racing threads were in %d spans only, in %v", moved, raceTime)
	}
}
