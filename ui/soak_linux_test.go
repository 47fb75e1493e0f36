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

// churning is a Ruby program for the test. It redefines methods under new file names, and starts and ends threads. Each
// second it makes about 20 new threads and 100 new methods, without using much CPU time.
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
	// soakDefault is how long the test runs unless DDTOP_SOAK sets another length. soakLeast is the shortest allowed
	// length.
	soakDefault = time.Hour
	soakLeast   = 10 * time.Minute
	// soakHistory is the length of the history. It is short, so that the history is full soon. An entry that is used
	// only by samples before the history is evicted four minutes later.
	soakHistory = time.Minute
	// soakWarmup is the time until all lists with a maximum size are full, such as the list of 10,000 ended threads.
	// During this time memory may grow. The warm-up is at most half of a run.
	soakWarmup = 20 * time.Minute
	soakEach   = 2 * time.Second
)

// usage is how much memory and other resources ddtop uses at one moment.
type usage struct {
	rss, heap, goroutines, entries float64
	// ended counts the open /proc files of threads that have ended. fds counts all descriptors except /proc files of
	// threads. The open files of living threads are in neither number, because how many there are depends on what the
	// threads do.
	fds, ended float64
}

// TestSoak samples a live process for a long time and shows all views in turn. After the warm-up, ddtop's memory,
// goroutines, descriptors and Dictionary must not grow.
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

// checkGrowth divides the time after the warm-up into thirds. It compares the medians of the measurements in the first
// third with the medians in the last third.
func checkGrowth(t *testing.T, seen []usage, frames, stacks int) {
	t.Helper()
	third := len(seen) / 3
	if third < 20 {
		t.Fatalf("only %d measurements", len(seen))
	}
	for _, c := range []struct {
		name string
		of   func(usage) float64
		// share and more say how much a figure may grow: share is a part of the figure, and more a fixed amount.
		// Figures may grow a little without a leak, because Go's collector changes its pace.
		share, more, unit float64
	}{
		{"resident memory in MB", func(u usage) float64 { return u.rss }, .10, 4e6, 1e6},
		{"live heap in MB", func(u usage) float64 { return u.heap }, .10, 2e6, 1e6},
		{"goroutines", func(u usage) float64 { return u.goroutines }, 0, 2, 1},
		{"descriptors except those of threads", func(u usage) float64 { return u.fds }, 0, 2, 1},
		// Each second 20 threads end. At any moment, up to 30 threads may have ended since ddtop last compared its list
		// of threads, so their descriptors are still open. If ddtop forgot to close the descriptor of one thread in a
		// thousand, 48 would be open after 40 minutes.
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

// used measures the resources of this process.
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
		// If there is an error, the descriptor was closed after the folder was listed. For example, the descriptor with
		// which the folder was read is closed now.
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
