package live

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// stayingThreads is a program with threads that stay in one place, and one thread that moves all the time.
const stayingThreads = `
$stdout.sync = true
A, B = IO.pipe
Thread.new { Thread.current.name = "reader"; A.gets; A.gets }
Thread.new { Thread.current.name = "asleep"; sleep }
Thread.new { Thread.current.name = "mover"; loop { sleep 0.005 } }
puts "ready"
$stdin.gets
B.puts
puts "moved"
$stdin.gets`

// TestNativeStaysAreReadOnce: if a thread stays in one place and its native stack is wanted, samples must have this
// stack. ddtop must read the stack only once while the thread stays. It must read the stack again after the thread has
// moved. A thread that moves all the time must have no native stack.
func TestNativeStaysAreReadOnce(t *testing.T) {
	each := rubytest.EachVersion
	if rubytest.Short(t) {
		each = rubytest.OldestAndNewest
	}
	each(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, stayingThreads, rubytest.Options{})
		p.Expect(t, "ready")
		s, err := Open(t.Context(), p.PID, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		ctx, cancel := context.WithTimeout(t.Context(), rubytest.Timeout)
		defer cancel()
		functions := map[string][]string{"main": {"read", "poll", "ppoll"}, "reader": {"read", "poll", "ppoll"},
			"asleep": {"pthread_cond_wait", "pthread_cond_timedwait", "ppoll", "poll"}}
		// stays has, for each thread's name, the values of Turns in the stays (periods without movement) that were seen
		stays := make(map[string]map[int64]bool)
		sent, samples := false, 0
		err = s.Run(ctx, func(x *sampler.Sample) {
			for i := range x.Threads {
				id := x.Threads[i].ID
				x.Native.Want(id, x.TimeNS)
				stay, ok := x.NativeStay(id)
				below := s.Dictionary().NativeStack(&x.Threads[i]).Frames
				if ok && below != nil {
					samples++
				}
				if !ok {
					continue // the watch may already have dropped a stack that the sample still has
				}
				if below != nil && !slices.Equal(below, stay.Frames) {
					t.Errorf("thread %d: the sample has %+v, the stay %+v", id, below, stay.Frames)
					cancel()
				}
				info, _ := s.Dictionary().Thread(id)
				name := info.Name
				if info.Main {
					name = "main"
				}
				if !slices.ContainsFunc(stay.Frames, func(f sampler.NativeFrame) bool {
					return slices.Contains(functions[name], f.Name)
				}) {
					t.Errorf("%s has %+v", name, stay)
					cancel()
				}
				if stays[name] == nil {
					stays[name] = make(map[int64]bool)
				}
				stays[name][stay.Turns] = true
			}
			switch counts, failed := x.Native.Counts(); {
			case failed != "":
				t.Error(failed)
				cancel()
			case !sent && len(stays) == 3:
				sent = true
				p.Send(t, "go on")
			case len(stays["reader"]) > 1 && len(stays["main"]) > 1:
				n := uint64(0)
				for _, turns := range stays {
					n += uint64(len(turns))
				}
				// A thread can move after its stack was read and before the next sample. No sample then has this stack.
				// So ddtop may have read more stacks than the samples show.
				if counts.Read < n || counts.Refused > 0 || counts.Cut > 0 {
					t.Errorf("%+v of %d stays", counts, n)
				}
				cancel()
			}
		})
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if samples == 0 {
			t.Error("no sample has C functions")
		}
		if len(stays["reader"]) < 2 || len(stays["main"]) < 2 || len(stays["asleep"]) == 0 {
			t.Errorf("stays: %v", stays)
		}
	})
}
