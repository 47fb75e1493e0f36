//go:build verify && linux

package ui

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	gometrics "runtime/metrics"
	"slices"
	"strconv"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler/live"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
)

// churning is a Ruby program whose methods are redefined, under file names that are new too, and whose threads are born
// and die: about 20 threads and 100 methods a second, at modest load.
const churning = `
STDOUT.sync = true
class Shop; end
shop, lock = Shop.new, Mutex.new
born = 0
life = lambda do
  n = (born += 1)
  Thread.new do
    Thread.current.name = "worker #{n}"
    5.times do |k|
      name = "step_#{n % 50}_#{k}"
      lock.synchronize { Shop.class_eval("def #{name}(x)\n  x.times { |y| y * y }\n  [x].map { |z| [z].map { |a| a + 1 } }\nend", "generated/step_#{n}_#{k}.rb") }
      200.times { shop.send(name, 30) }
      sleep 0.05
    end
  end
end
idle = 20.times.map { |i| Thread.new { Thread.current.name = "idle #{i}"; Queue.new.pop } }
puts "up"
alive = []
loop { alive.select!(&:alive?); alive << life.call while alive.size < 8; sleep 0.02 }
`

const (
	// soakDefault is how long the soak takes unless DDTOP_SOAK says otherwise; soakLeast what it takes at least.
	soakDefault = time.Hour
	soakLeast   = 10 * time.Minute
	// soakHistory is short, so that the history is full soon: what is kept beyond it is evicted four minutes later.
	soakHistory = time.Minute
	// soakWarmup is how long it takes until all that is bounded by a number (10,000 threads that have ended, say) is
	// full; of a shorter run half.
	soakWarmup = 20 * time.Minute
	soakEach   = 2 * time.Second
)

// usage is what ddtop takes at one moment.
type usage struct {
	rss, heap, goroutines, entries float64
	// fds counts the descriptors that are no /proc file of a thread of the target, ended those of a thread that is no
	// more. What is open of threads that live is bounded by their number, and moves with what they do: on a loaded
	// machine every one of them is asked for its state and its system call some time.
	fds, ended float64
}

// TestSoak lets the sampling and the screen of a live process run for long, all views looked at in turn: memory,
// goroutines, descriptors and the Dictionary must not grow once the history is full.
func TestSoak(t *testing.T) {
	length := soakDefault
	if v := os.Getenv("DDTOP_SOAK"); v != "" {
		d, err := time.ParseDuration(v)
		if err != nil || d < soakLeast {
			t.Fatalf("DDTOP_SOAK=%s is not a duration of %v or more", v, soakLeast)
		}
		length = d
	}
	p := rubytest.One(t).Start(t, churning, rubytest.Options{})
	p.Expect(t, "up")
	ctx, stop := context.WithTimeout(t.Context(), length)
	defer stop()
	src, err := live.Open(ctx, p.PID, live.Options{StackRate: 100, LockRate: 1000})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	st, err := newStore(src, scene.Options{History: soakHistory})
	if err != nil {
		t.Fatal(err)
	}
	o := scene.Options{History: soakHistory, Window: 30 * time.Second, Folder: t.TempDir()}.WithDefaults()
	m, err := NewModel(st, o)
	if err != nil {
		t.Fatal(err)
	}
	screen, paint := newProgram(ctx, m, io.Discard, tea.WithInput(nil), tea.WithWindowSize(160, 50))
	ended := make(chan struct{})
	var failed error
	go func() {
		defer close(ended)
		if err := paint.run(screen); ctx.Err() == nil {
			failed = fmt.Errorf("the screen ended early: %w", err)
			stop()
		}
	}()
	sampled := make(chan struct{})
	go func() {
		defer close(sampled)
		st.Run(ctx)
	}()
	var seen []usage
	begin := time.Now()
	keys := []string{"1", "2", "down", "enter", "esc", "3", "4", "5", "6", "7", "w", "space", "[", "space"}
	tick := time.NewTicker(soakEach)
	defer tick.Stop()
	for n := 0; ctx.Err() == nil; n++ {
		select {
		case <-ctx.Done():
			continue
		case <-tick.C:
		}
		screen.Send(keyPress(keys[n%len(keys)]))
		if time.Since(begin) > min(soakWarmup, length/2) {
			seen = append(seen, used(t, st))
		}
	}
	<-ended
	<-sampled
	if failed != nil {
		t.Fatal(failed)
	}
	if state := st.State(); state.Err != nil || state.Ended {
		t.Fatalf("the sampling ended: %+v", state)
	}
	frames, stacks, _, threads, overflow := st.Dict.Sizes()
	first, last := st.History.Span()
	if overflow != 0 || threads > 10_000 || frames < int(length.Seconds())*10 || last-first < int64(soakHistory)/2 {
		t.Errorf("%d frames, %d stacks given, %d threads known, %d refused, %v of history: the program or the sampling did not do what it should",
			frames, stacks, threads, overflow, time.Duration(last-first))
	}
	runtime.GC()
	checkGrowth(t, seen, frames, stacks)
}

// checkGrowth compares the medians of the first and the last third of the time after the warm-up.
func checkGrowth(t *testing.T, seen []usage, frames, stacks int) {
	t.Helper()
	third := len(seen) / 3
	if third < 20 {
		t.Fatalf("only %d measurements", len(seen))
	}
	for _, c := range []struct {
		name string
		of   func(usage) float64
		// share and more bound the growth: noise of the collector's pace.
		share, more, unit float64
	}{
		{"resident memory in MB", func(u usage) float64 { return u.rss }, .10, 4e6, 1e6},
		{"live heap in MB", func(u usage) float64 { return u.heap }, .10, 2e6, 1e6},
		{"goroutines", func(u usage) float64 { return u.goroutines }, 0, 2, 1},
		{"descriptors except those of threads", func(u usage) float64 { return u.fds }, 0, 2, 1},
		// Threads that ended since the list was last compared. 20 end a second: were one in a thousand left open, 48
		// would be after the 40 minutes that are measured.
		{"descriptors of ended threads", func(u usage) float64 { return u.ended }, 0, 30, 1},
		{"frames and stacks held", func(u usage) float64 { return u.entries }, .10, 500, 1},
	} {
		var med [3]float64
		for i := range med {
			var list []float64
			for _, u := range seen[i*third : (i+1)*third] {
				list = append(list, c.of(u))
			}
			slices.Sort(list)
			med[i] = list[len(list)/2]
		}
		rubytest.Report(t, "%s: medians of thirds %.1f, %.1f, %.1f (%d frames and %d stacks given in all)", c.name, med[0]/c.unit, med[1]/c.unit,
			med[2]/c.unit, frames, stacks)
		if med[2] > med[0]*(1+c.share)+c.more {
			t.Errorf("%s grows: %.1f, %.1f, %.1f", c.name, med[0]/c.unit, med[1]/c.unit, med[2]/c.unit)
		}
	}
}

// used measures what this process takes.
func used(t *testing.T, st *store.Store) usage {
	t.Helper()
	var u usage
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	if fields := bytes.Fields(data); len(fields) > 1 {
		pages, err := strconv.Atoi(string(fields[1]))
		if err != nil {
			t.Fatal(err)
		}
		u.rss = float64(pages * os.Getpagesize())
	}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		// An error is one of a descriptor that was closed since, as that of the folder itself.
		name, err := os.Readlink("/proc/self/fd/" + fd.Name())
		if err != nil {
			continue
		}
		var pid, tid int
		if n, _ := fmt.Sscanf(name, "/proc/%d/task/%d/", &pid, &tid); n < 2 {
			u.fds++
		} else if _, err := os.Stat(fmt.Sprintf("/proc/%d/task/%d", pid, tid)); err != nil {
			u.ended++
		}
	}
	u.goroutines = float64(runtime.NumGoroutine())
	sample := []gometrics.Sample{{Name: "/gc/heap/live:bytes"}}
	gometrics.Read(sample)
	if sample[0].Value.Kind() != gometrics.KindUint64 {
		t.Fatalf("%s is not known to %s", sample[0].Name, runtime.Version())
	}
	u.heap = float64(sample[0].Value.Uint64())
	frames, stacks := st.Dict.Held()
	u.entries = float64(frames + stacks)
	return u
}
