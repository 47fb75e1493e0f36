package pushing

import (
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/internal/streamtest"
	"github.com/ddtop/ddtop/push/status"
	"github.com/ddtop/ddtop/sampler"
)

// TestServiceOfFewSamples: with too few samples of a service, the text for Prometheus leaves out the 99th percentile of
// waits. With enough samples it has this percentile.
func TestServiceOfFewSamples(t *testing.T) {
	f := newServiceFigures()
	p := f.join("shop")
	process := streamtest.Process(1000, 100)
	class, stream := gvl.NewClassifier(process, sampler.NewDictionary()), stream.New(process)
	stream.Attach(p)
	now := int64(1e9)
	feed := func(n int, every int64) {
		for range n {
			now += every
			s := &sampler.Sample{TimeNS: now, Depth: sampler.StackTick}
			s.Self.Lowered = true
			stream.Feed(s, class.Classify(s))
		}
	}
	told := func() bool {
		services, _ := f.read()
		var b strings.Builder
		if err := status.Write(&b, &status.Figures{Services: services}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), `ddtop_observed_seconds_total{service="shop"}`) {
			t.Errorf("the service is not in %s", b.String())
		}
		return strings.Contains(b.String(), `ddtop_gvl_wait_p99_seconds{service="shop"}`)
	}
	feed(60, 500e6)
	if told() {
		t.Error("the p99 of waits is told at 2 samples a second")
	}
	feed(7000, 20e6) // this takes more than two minutes, so the first samples are dropped
	if !told() {
		t.Error("the p99 of waits is not told at 50 samples a second")
	}
}
