package exact

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// fakeExact is a process whose exact mode begins, fails or ends when the test says so.
type fakeExact struct {
	sampler.Source
	status sampler.ExactStatus
	err    error
	begun  int
}

func (f *fakeExact) Process() sampler.Process         { return sampler.Process{PID: 17} }
func (f *fakeExact) End() (sampler.End, bool)         { return sampler.End{}, false }
func (f *fakeExact) ExactStatus() sampler.ExactStatus { return f.status }
func (f *fakeExact) EndExact() (live.ExactReport, error) {
	f.status.On = false
	return live.ExactReport{}, nil
}

func (f *fakeExact) Exact(context.Context, live.ExactOptions) error {
	f.begun++
	if f.err == nil {
		f.status = sampler.ExactStatus{On: true, SinceNS: 1}
	}
	return f.err
}

func (f *fakeExact) ends(why string) { f.status.On, f.status.Ended = false, why }

// TestExactAgain: if exact mode ends itself because it costs too much, ddtop begins it again after one minute. Each
// later pause is twice as long, up to an hour. ddtop reports only the first end. After exact mode has lasted for an
// hour, the next pause is one minute again, and ddtop reports the end again.
func TestExactAgain(t *testing.T) {
	src := &fakeExact{status: sampler.ExactStatus{On: true, SinceNS: 1}}
	var said []string
	now := time.Unix(1e9, 0)
	a := &exactAgain{src: src, flags: &Flags{On: true}, say: func(what, why string) { said = append(said, what+": "+why) }}
	// rests lets exact mode end, and returns how long ddtop waits until it begins exact mode again.
	rests := func() time.Duration {
		t.Helper()
		before, from := src.begun, now
		src.ends("too dear")
		for src.begun == before {
			if now.Sub(from) > 2*exactRestMost {
				t.Fatalf("it is not tried again in %v", now.Sub(from))
			}
			a.step(t.Context(), now)
			if until, why := a.resting(); src.begun == before && (!until.After(from) || why != "too dear") {
				t.Fatalf("it rests until %v for %q, and it is %v", until, why, now)
			}
			now = now.Add(exactLook)
		}
		return now.Sub(from) - exactLook
	}
	lasts := func(long time.Duration) {
		for until := now.Add(long); now.Before(until); now = now.Add(exactLook) {
			a.step(t.Context(), now)
		}
	}
	lasts(time.Minute)
	var got []time.Duration
	for range 8 {
		got = append(got, rests())
		lasts(time.Minute)
	}
	const m = time.Minute
	if want := []time.Duration{m, 2 * m, 4 * m, 8 * m, 16 * m, 32 * m, 60 * m, 60 * m}; !slices.Equal(got, want) {
		t.Errorf("it rests for %v, want %v", got, want)
	}
	if len(said) != 1 {
		t.Errorf("it is said %q", said)
	}
	lasts(exactRestMost)
	if r := rests(); r != exactRest || len(said) != 2 {
		t.Errorf("after an hour it rests for %v, and %q is said", r, said)
	}
	if until, _ := a.resting(); !until.IsZero() {
		t.Errorf("it is on, and rests until %v", until)
	}
}

// TestExactNotAgain: ddtop does not begin exact mode again if its results were wrong, or if the user has ended it. If
// the first try to begin it again is refused, ddtop does not try again either.
func TestExactNotAgain(t *testing.T) {
	for _, c := range []struct {
		name  string
		do    func(src *fakeExact, a *exactAgain)
		said  string
		begun int
	}{
		{"wrong", func(src *fakeExact, _ *exactAgain) { src.status.Wrong = true }, "exact mode was ended and is not tried again: too dear", 0},
		{"refused", func(src *fakeExact, _ *exactAgain) { src.err = errors.New("refused") }, "exact mode can't be had any more: --exact: refused", 1},
		{"left", func(_ *fakeExact, a *exactAgain) { a.leave() }, "", 0},
	} {
		src, said := &fakeExact{}, []string{}
		a := &exactAgain{src: src, flags: &Flags{On: true}, say: func(what, why string) { said = append(said, fmt.Sprintf("%s: %s", what, why)) }}
		src.ends("too dear")
		c.do(src, a)
		now := time.Unix(1e9, 0)
		for until := now.Add(3 * exactRestMost); now.Before(until); now = now.Add(time.Minute) {
			a.step(t.Context(), now)
		}
		if src.begun != c.begun || c.said != "" && said[len(said)-1] != c.said || c.said == "" && len(said) > 0 {
			t.Errorf("%s: it is tried %d times, and %q is said", c.name, src.begun, said)
		}
	}
}
