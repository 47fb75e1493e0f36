package ruby

import (
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// inRequest has a thread in a request.
const inRequest = `
def serve(env)
  puts "ready"; $stdout.flush; $stdin.gets
end
serve({"REQUEST_METHOD" => "GET", "PATH_INFO" => "/orders", "SCRIPT_NAME" => "", "REQUEST_URI" => "/orders"})`

// TestUnknownWork: if ddtop has no time to search for requests, it reports that it does not know what a thread works
// for. It must not report that the thread works for no request.
func TestUnknownWork(t *testing.T) {
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, inRequest, rubytest.Options{})
		p.Expect(t, "ready")
		rd := openReaderWith(t, p.PID, Options{})
		const long = int64(1e15)
		rd.serving.finder.Allow(-long)
		var s sampler.Sample
		read := func(want func(*sampler.Thread) bool) sampler.Thread {
			t.Helper()
			for deadline := time.Now().Add(rubytest.Timeout); ; {
				if err := rd.Read(sampler.StackTick, &s); err != nil && !notNow(err) {
					t.Fatal(err)
				} else if err == nil && s.Threads[0].Quality&sampler.StackFresh != 0 && want(&s.Threads[0]) {
					return s.Threads[0]
				}
				if time.Now().After(deadline) {
					t.Fatalf("not seen in %+v", s.Threads[0])
				}
			}
		}
		// while a thread stands still, only the first stillLooks rounds search for its request
		for range 2 * stillLooks {
			th := read(func(*sampler.Thread) bool { return true })
			if th.Serving.Work != 0 || th.Quality&sampler.WorkUnknown == 0 {
				t.Errorf("without time: %+v", th)
			}
		}
		rd.serving.finder.Allow(2 * long)
		th := read(func(th *sampler.Thread) bool { return th.Serving.Work != 0 })
		if w := rd.dict.Work(th.Serving.Work); w.Endpoint != "GET /orders" || th.Quality&sampler.WorkUnknown != 0 {
			t.Errorf("with time: %+v, %+v", w, th)
		}
	})
}
