package ruby

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// oneFiber is a program without fibers until it gets a line of input. Then it makes a fiber, which serves a request and
// waits.
const oneFiber = `
threads = 3.times.map { Thread.new { sleep } }
puts "ready"
$stdout.flush
gets
def call(env) Fiber.yield end
Thread.new do
  f = Fiber.new { call({"REQUEST_METHOD" => "GET", "PATH_INFO" => "/x", "REQUEST_URI" => "/x", "HTTP_HOST" => "host"}) }
  f.resume
  puts "waits"
  $stdout.flush
  sleep
  f.resume
end
gets`

// TestNoFibersNoSearch: if no thread of a process has switched to another fiber, ddtop must not search the heap for
// fibers. After a thread has switched, ddtop must find its fiber.
func TestNoFibersNoSearch(t *testing.T) {
	rubytest.EachRelease(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, oneFiber, rubytest.Options{})
		p.Expect(t, "ready")
		monotonic := func() int64 {
			var ts unix.Timespec
			_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
			return ts.Nano()
		}
		rd := openReaderWith(t, p.PID, Options{Now: monotonic})
		var s sampler.Sample
		look := func() *sampler.Fibers {
			if err := rd.Read(sampler.StackTick, &s); err != nil && !notNow(err) {
				t.Fatal(err)
			}
			rd.waiting.sign.nextNS = 0
			if rd.waiting.switched {
				rd.waiting.look.ns, rd.waiting.search.ns = waitingSavings, waitingSavings
				rd.waiting.nextNS, rd.waiting.nextSearchNS = 0, 0
			}
			return rd.FollowFibers(monotonic())
		}
		for range 20 {
			if fibers := look(); fibers != nil {
				t.Fatalf("%+v before there was one", fibers)
			}
		}
		if rd.waiting.finder == nil {
			rubytest.Skip(t, "fibers of this release are not followed")
		}
		if n := len(rd.waiting.scans); n != 0 || rd.waiting.switched {
			t.Errorf("%d pages were searched for fibers that there cannot be", n)
		}
		p.Send(t, "")
		p.Expect(t, "waits")
		for i := 0; ; i++ {
			if fibers := look(); fibers != nil && len(fibers.List) == 1 {
				break
			}
			if i > 10_000 {
				t.Fatal("the fiber was not found")
			}
		}
	})
}
