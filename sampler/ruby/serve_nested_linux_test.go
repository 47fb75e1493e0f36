package ruby

import (
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// nestedResumers is a program that serves requests in which an Enumerator runs within an Enumerator. So two fibers lie
// between the running fiber and the request.
const nestedResumers = `
def work
  sleep 0.004
end
def call(env)
  e = Enumerator.new { |y| i = Enumerator.new { |z| 3.times { work; z << 1 } }; 3.times { y << i.next } }
  3.times { e.next }
end
def serve(n)
  env = {"REQUEST_METHOD" => "GET", "PATH_INFO" => "/orders/#{n}", "QUERY_STRING" => +"", "REQUEST_URI" => "/orders/#{n}", "HTTP_HOST" => "h#{n}"}
  call(env)
end
Thread.new { n = 0; loop { serve(n += 1) } }
puts "ready"; $stdout.flush; $stdin.gets`

// TestNestedResumers: a request's fiber has resumed a second fiber, which has resumed a third. ddtop remembers the
// request or job of each fiber from reading to reading. So it knows when the outermost request began.
func TestNestedResumers(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, nestedResumers, rubytest.Options{})
		p.Expect(t, "ready")
		rd := openReaderWith(t, p.PID, Options{Values: true})
		const want = 10
		var s sampler.Sample
		numbers, bounded := map[string]sampler.WorkNumber{}, map[sampler.WorkNumber]bool{}
		told := 0
		for deadline := time.Now().Add(rubytest.Timeout); len(bounded) < want && time.Now().Before(deadline); {
			if err := rd.Read(sampler.StackTick, &s); notNow(err) {
				continue
			} else if err != nil {
				t.Fatal(err)
			}
			for i := range s.Threads {
				w := rd.dict.Work(s.Threads[i].Serving.Work)
				if w.Number == 0 {
					continue
				}
				if n := numbers[w.Values]; w.Endpoint != "GET /orders/:id" || n != 0 && n != w.Number || !strings.HasPrefix(w.Values, "/orders/") {
					t.Fatalf("%+v was number %d", w, n)
				}
				numbers[w.Values] = w.Number
				if len(s.Threads[i].Resumers) == 2 {
					told++
					if w.BeforeNS > 0 && w.BeforeNS < w.SinceNS {
						bounded[w.Number] = true
					}
				}
			}
		}
		rubytest.Report(t, "%d requests, told %d times by a fiber two outward; of %d it is known since when", len(numbers), told, len(bounded))
		if len(bounded) < want {
			rubytest.TooSeldom(t, "of %d requests of %d it is known since when", len(bounded), len(numbers))
		}
	})
}
