//go:build verify

package live

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/internal/servertest"
	"github.com/ddtop/ddtop/sampler/live/internal/cstacks"
	"github.com/ddtop/ddtop/sampler/native"
)

const (
	// fitMoving and fitRails are how many stacks the test must accept from the two programs. fitWithin limits the time
	// for a program.
	fitMoving, fitRails = 15_000, 40_000
	fitWithin           = time.Hour
)

// TestNativeStacksFit reads 100,000 native stacks, and uses a stack only if its thread did not move during the read.
// Each must fit the thread's Ruby frames. One program has threads that move all the time, and the other is Rails on
// Puma with PostgreSQL.
func TestNativeStacksFit(t *testing.T) {
	total := 0
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, movingThreads, rubytest.Options{})
		p.Expect(t, "ready")
		total += nativeStacksFit(t, p.PID, fitMoving)
	})
	t.Run("rails", func(t *testing.T) {
		rails := servertest.StartRails(t, 1, 8)
		var asked, ended atomic.Int64
		for range 8 {
			go func() {
				defer ended.Add(1)
				for t.Context().Err() == nil {
					path := [...]string{"/orders?page=3", "/orders/17", "/report", "/stock"}[asked.Add(1)%4]
					answer, err := http.Get(rails.URL + path)
					if err != nil {
						return // the server ends with the test
					}
					_, _ = io.Copy(io.Discard, answer.Body)
					_ = answer.Body.Close()
				}
			}()
		}
		total += nativeStacksFit(t, rails.Workers[0], fitRails)
		if ended.Load() > 0 {
			t.Error("the server was not asked all the time")
		}
	})
	t.Logf("%d stacks in all", total)
}

// nativeStacksFit reads native stacks until it has accepted at least enough of them. It returns the number of accepted
// stacks.
func nativeStacksFit(t *testing.T, pid, enough int) (accepted int) {
	t.Helper()
	s, err := Open(t.Context(), pid, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	cut, moved, misfits, said := 0, 0, 0, 0
	for began := time.Now(); accepted < enough; {
		if time.Since(began) > fitWithin {
			t.Errorf("only %d stacks in %v", accepted, fitWithin)
			break
		}
		if accepted >= said+1000 {
			said = accepted
			t.Logf("%d stacks accepted, %d misfits", accepted, misfits)
		}
		sample, err := s.Once(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.native.Prepare(s.nativeSubject()); err != nil {
			t.Fatal(err)
		}
		for i := range sample.Threads {
			th := &sample.Threads[i]
			if th.TID == 0 {
				continue
			}
			stack, ok, err := s.native.Ruby(th.ID, th.TID, 0)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case !ok, stack.Missing == cstacks.ErrMoves.Error(), stack.Missing == cstacks.ErrRubyMoved.Error(),
				stack.Missing == native.ErrUnconfirmed.Error() && accepted == 0:
				moved++
			case stack.Missing == native.ErrMisfit.Error():
				misfits++
				if info, _ := s.Dictionary().Thread(th.ID); misfits < 10 {
					t.Errorf("%s does not fit: %+v", info.Name, stack)
				}
			case stack.Missing != "":
				cut++
				accepted++
			default:
				accepted++
			}
		}
	}
	t.Logf("%d stacks accepted, %d of them incomplete, %d of threads that moved, %d misfits", accepted, cut, moved, misfits)
	return accepted
}
