package ui

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/scene"
)

// tornSource is a recording for tests. About every eighth stack in it is incomplete.
type tornSource struct{ *recording.Reader }

func (r tornSource) Run(ctx context.Context, emit func(*sampler.Sample)) error {
	return r.Reader.Run(ctx, func(s *sampler.Sample) {
		torn := *s
		torn.Threads = slices.Clone(s.Threads)
		for i := range torn.Threads {
			if q := &torn.Threads[i].Quality; *q&sampler.StackFresh != 0 && (int(s.TimeNS/1e6)+i)%8 == 0 {
				*q |= sampler.StackPartial
			}
		}
		emit(&torn)
	})
}

// TestReadsMadeAgainAreNoLoss: the top of the screen shows the share of incomplete stacks. The test computes this share
// again from the samples of a real process. If a read was torn but repeated with success, nothing was lost. So only the
// help mentions such reads.
func TestReadsMadeAgainAreNoLoss(t *testing.T) {
	file, err := recording.Open("../screenshots/recordings/hog.ddtop")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r := tornSource{file}
	var read, lost float64
	var last sampler.Reads
	if err := r.Run(t.Context(), func(s *sampler.Sample) {
		last = s.Reads
		for i := range s.Threads {
			switch q := s.Threads[i].Quality; {
			case q&(sampler.StackPartial|sampler.StackFailed) != 0:
				lost++
				read++
			case q&sampler.StackFresh != 0:
				read++
			}
		}
	}); !errors.Is(err, sampler.ErrEnded) {
		t.Fatal(err)
	}
	if lost/read < scene.ManyPartial || last.Torn == 0 {
		t.Fatal("the recording has no such reads")
	}
	p, err := TakePicture(t.Context(), scene.Options{Source: r, Window: time.Minute}, 160, 45)
	if err != nil {
		t.Fatal(err)
	}
	want := units.FinePercent(lost/read) + " of stacks incomplete"
	if !strings.Contains(p.Text, want) || strings.Contains(p.Text, "torn") {
		t.Errorf("want %q and nothing torn in the header:\n%s", want, p.Text)
	}
	p, err = TakePicture(t.Context(), scene.Options{Source: r, Window: time.Minute}, 160, 60, "?", "pgdown", "pgdown", "pgdown", "pgdown", "pgdown", "pgdown", "pgdown", "pgdown")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"sampling since the attach", "(torn)", "not a loss"} {
		if !strings.Contains(p.Text, want) {
			t.Errorf("no %q in the help:\n%s", want, p.Text)
		}
	}
}

func TestFinePercent(t *testing.T) {
	for v, want := range map[float64]string{0: "0 %", 0.0004: "<0.1 %", 0.0005: "0.1 %", 0.0042: "0.4 %", 0.0994: "9.9 %", 0.12: "12 %", 1: "100 %"} {
		if got := units.FinePercent(v); got != want {
			t.Errorf("%g: %q, want %q", v, got, want)
		}
	}
}
