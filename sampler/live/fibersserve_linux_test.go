package live_test

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

const (
	// servingFibers is a program with two threads, each with 300 fibers that wait within a request. Every third fiber
	// handles an exception. A few more fibers wait, but not within a request.
	servingFibers = `
class Tagged < StandardError; end
def call(env, n)
  return Fiber.yield if n % 3 > 0
  begin raise Tagged, env["PATH_INFO"]; rescue Tagged; Fiber.yield; end
end
def serve(k, n)
  env = {"REQUEST_METHOD" => "GET", "PATH_INFO" => "/#{k}/#{n}", "REQUEST_URI" => "/#{k}/#{n}", "HTTP_HOST" => "host"}
  call(env, n)
end
$keep = []
def park(k)
  $keep << 300.times.map { |n| Fiber.new { serve(k, n) }.tap(&:resume) }
  $keep << 3.times.map { Fiber.new { Fiber.yield }.tap(&:resume) }
end
park(0)
Thread.new { park(1); sleep }.tap { |t| sleep 0.01 until t.stop? && $keep.size == 4 }
puts "ready"; $stdout.flush
STDIN.read`
	// servingTasks is a program with 400 tasks of the gem Async. Each waits within a request.
	servingTasks = `
require "async"
def call(env) = sleep(1 << 20)
Async do |task|
  400.times do |n|
    task.async { env = {"REQUEST_METHOD" => "GET", "PATH_INFO" => "/0/#{n}", "REQUEST_URI" => "/0/#{n}", "HTTP_HOST" => "host"}; call(env) }
  end
  task.async { puts "ready"; $stdout.flush }
end`
)

// TestFibersServe: for each suspended fiber, ddtop must report the request that it serves and the exception that it
// handles.
func TestFibersServe(t *testing.T) {
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		t.Parallel()
		for _, values := range []bool{true, false} {
			p := r.Start(t, servingFibers, rubytest.Options{})
			p.Expect(t, "ready")
			fibersServe(t, p, values, 2, 300)
			p.Stop(t)
		}
		if strings.HasPrefix(r.Name, "host") {
			t.Run("async", func(t *testing.T) {
				if exec.Command("ruby", "-e", `require "async"`).Run() != nil {
					rubytest.Skip(t, "Async is not installed")
				}
				p := r.Start(t, servingTasks, rubytest.Options{})
				p.Expect(t, "ready")
				fibersServe(t, p, true, 1, 400)
			})
		}
	})
}

// fibersServe checks that each thread has the right number of suspended fibers, each with its own request. The path of
// a request is /K/N, with the thread's number K and the fiber's number N.
func fibersServe(t *testing.T, p *rubytest.Process, values bool, threads, each int) {
	t.Helper()
	src := open(t, p.PID, live.Options{Values: values})
	once(t, src)
	found, err := src.Fibers(t.Context())
	if err != nil || found.Cut {
		t.Fatalf("%v, cut: %v", err, found.Cut)
	}
	dict := src.Dictionary()
	paths, numbers, of := map[string]bool{}, map[sampler.WorkNumber]bool{}, map[sampler.ThreadID]string{}
	for _, f := range found.List {
		w, handled := dict.Work(f.Serving.Work), dict.Exception(f.Serving.Exception)
		if w.Number == 0 {
			if handled != "" {
				t.Errorf("one that serves nobody handles %q", handled)
			}
			continue
		}
		if w.Endpoint != "GET /:id/:id" || numbers[w.Number] {
			t.Errorf("%+v, met before: %v", w, numbers[w.Number])
		}
		numbers[w.Number] = true
		var k, n int
		if _, err := fmt.Sscanf(w.Values, "/%d/%d", &k, &n); values && err != nil || !values && w.Values != "" {
			t.Fatalf("%+v: %v", w, err)
		}
		want := ""
		if threads > 1 && n%3 == 0 {
			want = "Tagged: " + w.Values
		}
		if values {
			paths[w.Values] = true
			thread := fmt.Sprint(k)
			if of[f.Thread] == "" {
				of[f.Thread] = thread
			}
			if of[f.Thread] != thread || handled != want {
				t.Errorf("a fiber of the thread that serves /%s/… serves %s, and handles %q", of[f.Thread], w.Values, handled)
			}
		} else if handled != "" && handled != "Tagged" {
			t.Errorf("%q is handled", handled)
		}
	}
	if len(numbers) != threads*each || values && (len(paths) != threads*each || len(of) != threads) {
		t.Errorf("%d requests, %d paths of %d threads, of %d", len(numbers), len(paths), len(of), threads*each)
	}
	rubytest.Report(t, "%d requests of suspended fibers in %.1f ms", len(numbers), float64(found.ReadNS)/1e6)
}

// TestFibersFollowed: samples must contain the suspended fibers of a process, with the request that each fiber serves.
func TestFibersFollowed(t *testing.T) {
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		t.Parallel()
		follow := func(t *testing.T, program string, want int) {
			p := r.Start(t, program, rubytest.Options{})
			p.Expect(t, "ready")
			src := open(t, p.PID, live.Options{Values: true})
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			var last *sampler.Fibers
			best := 0
			err := src.Run(ctx, func(s *sampler.Sample) {
				if s.Fibers == nil || s.Fibers == last {
					return
				}
				last = s.Fibers
				paths := map[string]bool{}
				for i := range last.List {
					f := &last.List[i]
					if w := src.Dictionary().Work(f.Serving.Work); w.Number != 0 {
						paths[w.Values] = true
					}
				}
				if best = max(best, len(paths)); best == want && !last.Cut {
					cancel()
				}
			})
			if best != want || last.Cut {
				t.Errorf("%d requests, of %d: %v", best, want, err)
			} else {
				rubytest.Report(t, "%d requests, in a look of %.1f ms", best, float64(last.ReadNS)/1e6)
			}
		}
		follow(t, servingFibers, 600)
		if strings.HasPrefix(r.Name, "host") {
			if exec.Command("ruby", "-e", `require "async"`).Run() != nil {
				rubytest.Skip(t, "Async is not installed")
			}
			follow(t, servingTasks, 400)
		}
	})
}
