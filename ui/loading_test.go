//go:build !windows

package ui

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/term"

	"github.com/ddtop/ddtop/ui/scene"
)

// thing is what the work returns to Load in these tests. It records whether Load closed it.
type thing struct{ closed chan struct{} }

func (t *thing) Close() error {
	close(t.closed)
	return nil
}

// load runs Load on a terminal. The work first reports each Progress in the parameter tells. It then waits until the
// test closes release.
func load(t *testing.T, ctx context.Context, tells ...Progress) (x *terminal, release chan struct{}, got chan *thing, made *thing) {
	t.Helper()
	x = openTerminal(t)
	release, got, made = make(chan struct{}), make(chan *thing, 1), &thing{make(chan struct{})}
	go func() {
		v, err := Load(ctx, scene.Options{Input: x.slave, Output: x.slave}, "opening big.ddtop", func(_ context.Context, tell func(Progress)) (*thing, error) {
			for _, p := range tells {
				tell(p)
			}
			// wait without regard to ctx, like work that cannot be interrupted, such as the reading of debug
			// information
			<-release
			return made, nil
		})
		got <- v
		x.done <- err
	}()
	return x, release, got, made
}

// left waits until Load has returned, and checks its error. It also checks that the terminal has the same settings as
// before Load.
func (x *terminal) left(want error) {
	x.t.Helper()
	select {
	case err := <-x.done:
		if !errors.Is(err, want) || want == nil && err != nil {
			x.t.Errorf("Load returned %v, want %v", err, want)
		}
	case <-time.After(patience):
		x.t.Fatalf("Load did not return; the terminal got %q", x.tail())
	}
	after, err := term.GetState(int(x.slave.Fd()))
	if err != nil || *after != *x.before {
		x.t.Errorf("the terminal's settings were %+v, are %+v (%v)", x.before, after, err)
	}
}

func TestLoadShowsHowFarItIs(t *testing.T) {
	for _, c := range []struct {
		now  Progress
		want []string
	}{
		{Progress{Done: 1_250_000_000, Total: 5_000_000_000}, []string{"opening big.ddtop", "25 % · 1.2 GB of 5.0 GB", "███████████████░░░"}},
		{Progress{What: "debug information of libruby.so", Done: 30, Total: 1200, Unit: "units"}, []string{"debug information of libruby.so", "2 % · 30 of 1,200 units", "esc cancels"}},
		{Progress{}, []string{"opening big.ddtop", "esc cancels"}},
	} {
		x, release, got, made := load(t, t.Context(), c.now)
		for _, s := range c.want {
			x.waitFor(s)
		}
		close(release)
		x.left(nil)
		if v := <-got; v != made {
			t.Errorf("Load returned %v, the work %v", v, made)
		}
		select {
		case <-made.closed:
			t.Error("what Load returned is closed")
		default:
		}
	}
}

// TestLoadIsCancelled: a key or a signal ends Load at once, although the work cannot be interrupted. If the work later
// returns a result, Load must close the result.
func TestLoadIsCancelled(t *testing.T) {
	for name, want := range map[string]error{"q": ErrCancelled, "\x1b": ErrCancelled, "\x03": ErrCancelled, "signal": context.Canceled} {
		ctx, cancel := context.WithCancel(t.Context())
		x, release, got, made := load(t, ctx, Progress{Done: 1, Total: 3})
		x.waitFor("33 %")
		if name == "signal" {
			cancel()
		} else {
			x.keys(name)
		}
		x.left(want)
		if v := <-got; v != nil {
			t.Errorf("%q: it returned %v", name, v)
		}
		close(release)
		select {
		case <-made.closed:
		case <-time.After(patience):
			t.Errorf("%q: what the work made was not closed", name)
		}
		cancel()
	}
}

// TestLoadOfAMoment: if the work takes only a moment, Load writes nothing to the terminal. Load returns the work's
// error.
func TestLoadOfAMoment(t *testing.T) {
	x := openTerminal(t)
	why := errors.New("no such process")
	v, err := Load(t.Context(), scene.Options{Input: x.slave, Output: x.slave}, "attaching", func(ctx context.Context, _ func(Progress)) (*thing, error) {
		return nil, errors.Join(why, ctx.Err())
	})
	if v != nil || !errors.Is(err, why) || errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", v, err)
	}
	if _, err := x.slave.WriteString("end"); err != nil {
		t.Fatal(err)
	}
	x.waitFor("end")
	if got := strings.TrimSuffix(x.output(), "end"); got != "" {
		t.Errorf("the terminal got %q", got)
	}
}
