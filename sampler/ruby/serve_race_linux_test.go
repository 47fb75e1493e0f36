package ruby

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// serveTags is a program with threads that serve one request after another, each of up to a few ms. Most requests have
// the same frames at the same addresses. Every request's path has the numbers of the thread and of the request.
const serveTags = `
def work(env, ms)
  case ms % 4
  when 0 then sleep ms / 1000.0
  when 1 then 2000.times { |i| env["x#{i % 7}"] = i.to_s }
  when 2 then [1].each { |x| sleep 0.0005 }
  end
end
def call(env, ms)
  work(env, ms)
  [200, {}, []]
end
def build(k, n)
  e = {"SERVER_NAME" => "here", "rack.version" => [1, 3], "HTTP_ACCEPT" => "*/*", "SERVER_PROTOCOL" => "HTTP/1.1"}
  e["REQUEST_METHOD"] = "GET"
  e["REQUEST_URI"] = "/#{k}/#{n}?q=#{n}"
  e["PATH_INFO"] = "/#{k}/#{n}"
  e["SCRIPT_NAME"] = ""
  e["QUERY_STRING"] = "q=#{n}"
  e["HTTP_HOST"] = "host#{k}"
  e
end
def serve(k, n)
  env = build(k, n)
  call(env, n % 8)
end
# inside of a fiber that one resumes which has the request, or in one of its own
def serve_in_fibers(k, n)
  case n % 3
  when 0 then env = build(k, n); Enumerator.new { |y| 2.times { y << work({}, n % 8) } }.tap { |e| 2.times { e.next } }
  when 1 then env = build(k, n); Fiber.new { Fiber.new { work({}, n % 8) }.resume }.resume
  when 2 then Fiber.new { serve(k, n) }.resume
  end
  env
end
alias serve_each serve
alias serve_each serve_in_fibers if ARGV[0] == "fibers"
4.times { |k| Thread.new { Thread.current.name = "server #{k}"; n = 0; loop { serve_each(k, n += 1); sleep 0.001 if n % 3 == 0 } } }
Thread.new { loop { sleep 0.002; GC.start } }
Thread.new { loop { sleep 0.005; GC.compact } } if ARGV[0] == "compact" && GC.respond_to?(:compact)
puts "ready"; $stdout.flush; $stdin.gets`

// served checks the requests that ddtop reports for threads. Each request's path names its thread, so served can
// recognize a request of another thread.
type served struct {
	paths   map[sampler.WorkNumber]string
	numbers map[string]sampler.WorkNumber
	last    map[sampler.ThreadID]int
	// moves is true if compactions move the requests in memory. ddtop then takes a moved request for a new one, with
	// another number.
	moves bool
	// found counts how often a thread in a sample had a request. none counts how often it had none.
	found, none int
	// outward counts the requests that ddtop found in a fiber that has resumed the running fiber. They are also counted
	// in found.
	outward int
}

// see checks one thread of a sample.
func (c *served) see(rd *Reader, th *sampler.Thread) error {
	info, _ := rd.dict.Thread(th.ID)
	tag, ok := strings.CutPrefix(info.Name, "server ")
	w := rd.dict.Work(th.Serving.Work)
	if !ok {
		if w.Number != 0 && info.Name != "" { // if Name is empty, ddtop may not have read the thread's name yet
			return fmt.Errorf("thread %q serves %+v", info.Name, w)
		}
		return nil
	}
	if w.Number == 0 {
		c.none++
		return nil
	}
	c.found++
	path, query, _ := strings.Cut(w.Values, "?q=")
	rest, ok := strings.CutPrefix(path, "/"+tag+"/")
	n, err := strconv.Atoi(rest)
	if !ok || err != nil || query != rest {
		return fmt.Errorf("thread %q serves %q", info.Name, w.Values)
	}
	if old, ok := c.paths[w.Number]; ok && old != w.Values {
		return fmt.Errorf("request %d was %q and is %q", w.Number, old, w.Values)
	}
	if old, ok := c.numbers[w.Values]; ok && old != w.Number && !c.moves {
		return fmt.Errorf("%q was request %d and is %d", w.Values, old, w.Number)
	}
	if len(th.Resumers) > 0 && n%3 != 2 {
		c.outward++
	}
	if n < c.last[th.ID] {
		return fmt.Errorf("thread %q serves %q after the %d.", info.Name, w.Values, c.last[th.ID])
	}
	if w.Endpoint != "GET /:id/:id" || w.SinceNS == 0 || w.BeforeNS >= w.SinceNS {
		return fmt.Errorf("%+v", w)
	}
	c.paths[w.Number], c.numbers[w.Values], c.last[th.ID] = w.Values, w.Number, n
	return nil
}

// TestServing: ddtop takes samples while the program runs. In no sample does a thread have a request of another thread,
// or a mix of two requests. This is also true if a budget of CPU time delays the searches for requests.
func TestServing(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		for _, v := range r.Variants(t) {
			for _, mode := range []string{"plain", "compact", "fibers"} {
				t.Run(v.Name+" "+mode, func(t *testing.T) {
					p := r.Start(t, serveTags, v.Apply(rubytest.Options{Args: []string{mode}}))
					p.Expect(t, "ready")
					raceServing(t, openReaderWith(t, p.PID, Options{Values: true}), raceSamples(t)/4, mode)
					if mode != "compact" {
						raceServing(t, openReaderWith(t, p.PID, Options{Values: true, Frugal: true}), raceSamples(t)/8, mode)
					}
				})
			}
		}
	})
}

// raceServing takes samples until ddtop has found requests for threads as often as the parameter want says.
func raceServing(t *testing.T, rd *Reader, want int, mode string) {
	var s sampler.Sample
	c := served{moves: mode == "compact", paths: map[sampler.WorkNumber]string{}, numbers: map[string]sampler.WorkNumber{}, last: map[sampler.ThreadID]int{}}
	deadline := time.Now().Add(raceTime)
	outward := 0 // how many requests from resuming fibers the test wants
	if mode == "fibers" {
		outward = want / 50
	}
	for i := 0; (c.found < want || len(c.paths) < want/50 || c.outward < outward) && time.Now().Before(deadline); i++ {
		depth := sampler.StackTick
		if i%4 != 0 {
			depth = sampler.LockTick
		}
		if err := rd.Read(depth, &s); err != nil {
			if notNow(err) {
				continue
			}
			t.Fatal(err)
		}
		for j := range s.Threads {
			if th := &s.Threads[j]; th.Quality&sampler.StackFresh != 0 && th.Quality&sampler.StackFailed == 0 {
				if err := c.see(rd, th); err != nil {
					t.Fatalf("after %d: %v", c.found, err)
				}
			}
		}
	}
	rubytest.Report(t, "%d threads of samples with a request, %d without, %d requests, %d told by a fiber outward", c.found, c.none, len(c.paths), c.outward)
	if c.outward < outward {
		t.Errorf("%d requests of %d were told by a fiber outward", c.outward, c.found)
	}
	if c.found < want || len(c.paths) < want/50 {
		rubytest.TooSeldom(t, "%d threads of samples with a request, %d without, %d requests", c.found, c.none, len(c.paths))
	}
}
