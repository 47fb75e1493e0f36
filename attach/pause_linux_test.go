package attach

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

// TestPauseOfExec: a program's threads begin and end, and a thread other than the main one calls exec again and again.
// Meanwhile ddtop pauses the program. Neither side may wait forever: pauses and execs must both continue.
func TestPauseOfExec(t *testing.T) {
	const pauses, execs = 1000, 50
	c := startHelper(t, "churn 40", nil)
	var again atomic.Int64
	go func() {
		for {
			if line, err := c.lines.ReadString('\n'); err != nil || line != "again\n" {
				return
			}
			again.Add(1)
		}
	}()
	eventually(t, "the first exec", func() bool { return again.Load() > 1 })
	p := open(t, c.pid)
	const limit = 5 * time.Millisecond
	var z *Pauser
	eventually(t, "a first pause", func() bool {
		var err error
		z, err = p.NewPauser(limit, nil)
		return err == nil
	})
	defer z.Close()
	var done, cut atomic.Int64
	quit, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		first := again.Load()
		for done.Load() < pauses || again.Load() < first+execs {
			select {
			case <-quit:
				ended <- nil
				return
			default:
			}
			pause, err := z.Pause(func() {})
			if err != nil && !errors.Is(err, ErrPermission) { // during exec, the kernel refuses permission for a moment
				ended <- err
				return
			}
			switch {
			case err != nil:
			case pause.Cut:
				cut.Add(1)
			default:
				done.Add(1)
			}
		}
		ended <- nil
	}()
	// The test fails only if there was neither a pause nor an exec for 20 s, which is longer than any machine needs.
	const stuck = 20 * time.Second
	last, since := int64(-1), time.Now()
	for {
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d pauses and %d that were cut, over %d execs", done.Load(), cut.Load(), again.Load())
			close(quit)
			return
		case <-time.After(100 * time.Millisecond):
		}
		if n := done.Load() + cut.Load() + again.Load()<<32; n != last {
			last, since = n, time.Now()
		}
		if time.Since(since) > stuck {
			c.kill(t) // killing the child ends every wait for it
			close(quit)
			t.Fatalf("stuck after %d pauses and %d that were cut, over %d execs", done.Load(), cut.Load(), again.Load())
		}
	}
}
