package ui

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/scene"
)

// counter imitates a terminal. It counts the bytes that are written to it.
type counter struct{ n atomic.Int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}

// processCPU returns the CPU time of this process.
func processCPU(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// threadCPU returns the CPU time of the calling thread. This does not include time in which the thread waits for a CPU.
func threadCPU(tb testing.TB) time.Duration {
	tb.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// BenchmarkTerminal shows each view at 200x50 with 50 threads, as for a live process. Before each picture it feeds the
// samples of a quarter of a second (stacks at 100 Hz, the GVL at 1 kHz). Bubble Tea writes the picture to a terminal of
// 24-bit colour. The benchmark runs in real time. feed-% is the CPU time for adding up samples, and cpu-% is all other
// CPU time of this process. ddtop's cost of reading a live process is in neither.
func BenchmarkTerminal(b *testing.B) {
	samples := record(b, demosource.Options{Length: 20 * time.Second, HTTP: 43})
	views := map[string][]string{"live": nil}
	for _, v := range pageViews {
		views[v.name] = v.keys
	}
	for _, name := range slices.Sorted(maps.Keys(views)) {
		b.Run(name+"/200x50/threads=50", func(b *testing.B) {
			s := newScreen(b, 200, 50, demosource.Options{Length: 31 * time.Second, HTTP: 43}, scene.Options{})
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			var out counter
			p, paint := newProgram(ctx, s.model, &out, tea.WithInput(nil),
				tea.WithWindowSize(200, 50), tea.WithEnvironment([]string{"TERM=xterm-256color", "COLORTERM=truecolor", "TTY_FORCE=1"}))
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				if err := paint.run(p); ctx.Err() == nil {
					b.Error("the screen ended early:", err)
				}
			}()
			for _, k := range views[name] {
				p.Send(keyPress(k))
			}
			runtime.LockOSThread() // so that threadCPU measures the folding
			defer runtime.UnlockOSThread()
			frames := time.NewTicker(s.model.Opt.Repaint)
			defer frames.Stop()
			<-frames.C
			at, next := newestNS(s.store), 0
			var fed time.Duration
			cpu, bytes, begin, n := processCPU(b), out.n.Load(), time.Now(), 0
			for b.Loop() {
				start := threadCPU(b)
				for end := at + int64(s.model.Opt.Repaint); at < end; next++ {
					x := *samples[next%len(samples)]
					if i := next % len(samples); i > 0 {
						at += x.TimeNS - samples[i-1].TimeNS
					} else {
						at += int64(time.Millisecond)
					}
					x.TimeNS = at
					s.store.Feed(&x)
				}
				fed += threadCPU(b) - start
				<-frames.C
				n++
			}
			sec := time.Since(begin).Seconds()
			cpu = processCPU(b) - cpu
			b.ReportMetric(float64(out.n.Load()-bytes)/sec/1000, "KB/s")
			b.ReportMetric(fed.Seconds()/sec*100, "feed-%")
			b.ReportMetric((cpu-fed).Seconds()/sec*100, "cpu-%")
			b.ReportMetric(float64((cpu-fed).Microseconds())/float64(n), "cpu-µs/frame")
			stop()
			<-ended
		})
	}
}

// BenchmarkKey measures the time from a key press until the new picture is ready, with 500 threads and a minute of
// history. The keys select the next thread, change the metric, or move the time. cpu-ms/key is the CPU time of this
// process. Unlike the measured time, it does not depend on other programs on the machine.
func BenchmarkKey(b *testing.B) {
	s := newScreen(b, 200, 50, demosource.Options{Length: time.Minute, HTTP: 493}, scene.Options{})
	for _, keys := range [][2]string{{"down", "up"}, {"w", "w"}, {"[", "]"}} {
		b.Run(fmt.Sprintf("%s/200x50/threads=500", keys[0]), func(b *testing.B) {
			n, cpu := 0, processCPU(b)
			for b.Loop() {
				s.press(keys[n%2])
				n++
			}
			b.ReportMetric(float64((processCPU(b)-cpu).Microseconds())/float64(n)/1000, "cpu-ms/key")
		})
	}
}
