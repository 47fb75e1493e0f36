package ui

import (
	"fmt"
	"testing"
	"time"

	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/scene"
)

// BenchmarkFrame draws one picture of the screen at 200x50. It measures all the work from the stored data to the string
// that goes to the terminal.
func BenchmarkFrame(b *testing.B) {
	for _, threads := range []int{50, 500} {
		b.Run(fmt.Sprintf("200x50/threads=%d", threads), func(b *testing.B) {
			s := newScreen(b, 200, 50, demosource.Options{Length: 31 * time.Second, HTTP: threads - 7}, scene.Options{})
			b.ReportAllocs()
			for b.Loop() {
				s.model.Refresh()
			}
			b.ReportMetric(float64(len(s.model.grid.String(true))), "bytes/frame")
		})
	}
}

// BenchmarkFeed measures how long the store takes to add one sample to its data and sums.
func BenchmarkFeed(b *testing.B) {
	for _, threads := range []int{10, 100, 500} {
		b.Run(fmt.Sprintf("threads=%d", threads), func(b *testing.B) {
			samples := record(b, demosource.Options{Length: 2 * time.Second, HTTP: threads - 7})
			s := newScreen(b, 80, 24, demosource.Options{Length: 2 * time.Second, HTTP: threads - 7}, scene.Options{})
			at := newestNS(s.store)
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				x := samples[n%len(samples)]
				n++
				at += int64(time.Millisecond)
				x.TimeNS = at
				s.store.Feed(x)
			}
		})
	}
}
