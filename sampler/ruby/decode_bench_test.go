package ruby

import (
	"fmt"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
)

// deepProgram parks one thread for each number of frames that it gets. Ruby methods and C functions alternate on their
// stacks.
const deepProgram = `
$stdout.sync = true
class Deep
  def down(n); n <= 0 ? sleep : across(n - 1); end
  def across(n); n <= 0 ? sleep : [1].each { down(n - 2) }; end
end
threads = ARGV.map { |n| Thread.new { Thread.current.name = n; Deep.new.down(n.to_i) } }
Thread.pass until threads.all? { |t| t.status == "sleep" }
puts "ready"
STDIN.gets
`

func BenchmarkDecode(b *testing.B) {
	r := rubytest.One(b)
	p := r.Start(b, deepProgram, rubytest.Options{Args: []string{"30", "100", "1000"}})
	p.Expect(b, "ready")
	g := openTarget(b, p.PID)
	for _, thread := range g.threads(b) {
		name := g.name(b, thread)
		if name == "" {
			continue
		}
		raw, ok := g.threadStack(b, thread, true)
		if !ok {
			b.Fatal("no stack")
		}
		decode := func(b *testing.B, d *code.Decoder) code.Info {
			_, info, err := d.Decode(&raw)
			if err != nil {
				b.Fatal(err)
			}
			return info
		}
		frames := decode(b, g.dec).Frames
		b.Run(fmt.Sprintf("cached/depth=%d", frames), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				decode(b, g.dec)
			}
		})
		b.Run(fmt.Sprintf("cold/depth=%d", frames), func(b *testing.B) {
			b.ReportAllocs()
			calls := 0
			for b.Loop() {
				d := g.vm.NewDecoder(sampler.NewDictionary())
				calls = decode(b, d).Calls
			}
			b.ReportMetric(float64(calls), "calls")
		})
	}
}

// BenchmarkSuffix decodes a stack of about 90 frames. Only the innermost frames differ from the last time, as in a
// running thread.
func BenchmarkSuffix(b *testing.B) {
	r := rubytest.One(b)
	p := r.Start(b, deepProgram, rubytest.Options{Args: []string{"58"}})
	p.Expect(b, "ready")
	g := openTarget(b, p.PID)
	for _, thread := range g.threads(b) {
		if g.name(b, thread) == "" {
			continue
		}
		raw, ok := g.threadStack(b, thread, true)
		if !ok {
			b.Fatal("no stack")
		}
		fs := g.dec.FrameSize()
		var kept code.Kept
		for _, how := range []struct {
			name string
			kept *code.Kept
		}{{"whole", nil}, {"suffix", &kept}} {
			b.Run(how.name, func(b *testing.B) {
				b.ReportAllocs()
				frames, reused, n := 0, 0, 0
				for b.Loop() {
					inner := raw
					n = (n + 7) % 20
					inner.Frames, inner.CFP = raw.Frames[n*fs:], raw.CFP+attach.Address(n*fs)
					inner.Kept = how.kept
					_, info, err := g.dec.Decode(&inner)
					if err != nil {
						b.Fatal(err)
					}
					frames, reused = frames+len(inner.Frames)/fs, reused+info.Reused
				}
				b.ReportMetric(float64(frames)/float64(b.N), "frames")
				b.ReportMetric(float64(reused)/float64(b.N), "taken-over")
			})
		}
	}
}

// BenchmarkRevalidate measures how long the check of the known names takes. The check reads all data of the stacks of
// about 250 threads again.
func BenchmarkRevalidate(b *testing.B) {
	r := rubytest.One(b)
	p, _ := r.StartParked(b, rubytest.Options{})
	g := openTarget(b, p.PID)
	var stacks []code.Stack
	for _, thread := range g.threads(b) {
		if raw, ok := g.threadStack(b, thread, true); ok {
			stacks = append(stacks, raw)
		}
	}
	n := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		for i := range stacks {
			if _, _, err := g.dec.Decode(&stacks[i]); err != nil {
				b.Fatal(err)
			}
		}
		n++
		b.StartTimer()
		if err := g.dec.Revalidate(int64(n), sampler.GC{Valid: true, Count: n, MajorCount: n}); err != nil {
			b.Fatal(err)
		}
	}
}
