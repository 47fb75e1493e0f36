package ruby

import (
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/processcontext"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/internal/rubytest/published"
	"github.com/ddtop/ddtop/sampler"
)

// readPublished opens a Reader of a process. The process reports where in its memory the threads publish their spans,
// and readPublished passes this to the Reader.
func readPublished(t *testing.T, pid int) *Reader {
	t.Helper()
	p, err := attach.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	mappings, err := p.Maps()
	if err != nil {
		t.Fatal(err)
	}
	c, err := processcontext.ReadMapped(p, mappings)
	if err != nil || c.Threads.Version != "tls_v1" || len(c.Threads.Keys) != 2 {
		t.Fatalf("the process says %+v: %v", c, err)
	}
	v, err := p.ThreadLocal("otel_thread_ctx_v1", mappings)
	if err != nil {
		t.Fatal(err)
	}
	rd := openReader(t, pid)
	rd.SetPublished(v, c.Threads.Keys)
	return rd
}

// tlsModels are the compiler options for each way in which machine code reaches a thread-local variable of a library
// that is loaded later.
var tlsModels = map[string][]string{
	"general dynamic": {"-mtls-dialect=gnu", "-DMORE"},
	"descriptor":      {"-mtls-dialect=gnu2"},
	"large":           {"-mtls-dialect=gnu2", "-DMORE"},
	"initial-exec":    {"-ftls-model=initial-exec"},
}

func needPublished(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		rubytest.Skip(t, "thread-local variables are told on x86_64 alone")
	}
}

// TestPublishedSpans: waiting threads publish the IDs of spans in their memory, and also print them. ddtop must read
// the same IDs. Some threads publish hostile records on purpose.
func TestPublishedSpans(t *testing.T) {
	needPublished(t)
	rubytest.EachRelease(t, func(t *testing.T, r rubytest.Ruby) {
		for name, flags := range tlsModels {
			t.Run(name, func(t *testing.T) {
				p := published.Start(t, r, rubytest.Options{Args: []string{"parked"}}, flags...)
				var truth map[string]published.Span
				p.JSON(t, &truth)
				rd := readPublished(t, p.PID)
				last, calls := "no tick", uint64(0)
				// A tick that has no time to read a span reports none. So the test waits for a later tick.
				for deadline := time.Now().Add(rubytest.Timeout); last != "" && time.Now().Before(deadline); {
					last = comparePublished(t, rd, truth)
					before := calls
					if calls = rd.Reads().Calls; last == "" && calls-before > 2 {
						last = "what threads publish is not read in the call of their stacks"
					}
				}
				if last != "" {
					t.Errorf("in the end: %s", last)
				}
			})
		}
	})
}

// comparePublished compares the spans in a sample with the spans that the threads print, and returns the missing spans.
// If ddtop reports another span for a thread, the test fails.
func comparePublished(t *testing.T, rd *Reader, truth map[string]published.Span) (missing string) {
	t.Helper()
	var s sampler.Sample
	if err := rd.Read(sampler.StackTick, &s); err != nil {
		return err.Error()
	}
	seen := 0
	number := func(n uint64) string { return strconv.FormatUint(n, 10) }
	for i := range s.Threads {
		info, _ := rd.dict.Thread(s.Threads[i].ID)
		want, ok := truth[info.Name]
		if !ok {
			continue
		}
		seen++
		serving := s.Threads[i].Serving
		if got := (published.Span{ID: number(serving.Span), Root: number(serving.RootSpan)}); got != want {
			missing = fmt.Sprintf("thread %q publishes %v, not %v", info.Name, got, want)
			if serving.Span != 0 {
				t.Fatal(missing)
			}
		}
	}
	if seen != len(truth) {
		missing = fmt.Sprintf("%d of %d threads were seen", seen, len(truth))
	}
	return missing
}

// TestRacingPublished: threads publish spans as fast as they can, in records that they then overwrite or free. A span's
// number encodes its thread, its trace and its place in the trace. So the test can check two things. ddtop never shows
// a span of another thread, and never shows a span and a root of different traces.
func TestRacingPublished(t *testing.T) {
	needPublished(t)
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		for name, flags := range tlsModels {
			t.Run(name, func(t *testing.T) {
				p := published.Start(t, r, rubytest.Options{Args: []string{"race"}}, flags...)
				p.Expect(t, "ready")
				apart(t, p.PID)
				raceSpans(t, readPublished(t, p.PID), raceSamples(t)/4)
			})
		}
	})
}
