package cli_test

import (
	"encoding/json"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/report"
)

// keptFibers is a program with 20 fibers that wait in requests of one route, and 10 in requests of another route. All
// text that comes from users contains "zq".
const keptFibers = `
$stdout.sync = true
class KeptError < StandardError; end
def call(env)
  begin raise KeptError, "zqmessage"; rescue KeptError; Fiber.yield; end
end
def serve(path) = call({"REQUEST_METHOD" => "GET", "PATH_INFO" => path, "REQUEST_URI" => path, "QUERY_STRING" => "name=zq", "HTTP_HOST" => "zqhost"})
$keep = 30.times.map { |n| Fiber.new { serve(n < 20 ? "/kept/#{n}" : "/other/#{n}") }.tap(&:resume) }
puts "up"
STDIN.gets`

// statUntil runs stat repeatedly until done accepts the result. It returns the result about requests, and the whole
// JSON.
func statUntil(t *testing.T, pid int, done func(*report.StatRequests) bool, args ...string) (r report.StatRequests, text string) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); ; {
		got := run(t, append([]string{"stat", strconv.Itoa(pid), "-d", "1s", "--json"}, args...)...)
		got.want(t, 0)
		var s struct{ Requests report.StatRequests }
		if err := json.Unmarshal([]byte(got.out), &s); err != nil {
			t.Fatalf("%v: %s", err, got.out)
		}
		if done(&s.Requests) {
			return s.Requests, got.out
		}
		if time.Now().After(deadline) {
			rubytest.TooSeldomNow(t, "%v: it was never so: %s", args, got.out)
		}
	}
}

// TestFibersOptions: the flags --endpoint, --redact and --values also work for requests that waiting fibers serve.
func TestFibersOptions(t *testing.T) {
	rubytest.OftenEnough(t)
	t.Parallel()
	p := rubytest.One(t).Start(t, keptFibers, rubytest.Options{})
	p.Expect(t, "up")
	for _, args := range [][]string{nil, {"--values"}, {"--redact"}, {"--endpoint", "kept"}} {
		all := strings.Join(args, " ")
		want, routes, typed := 30, 2, all == "--values"
		if strings.HasPrefix(all, "--endpoint") {
			want, routes = 20, 1
		}
		r, text := statUntil(t, p.PID, func(r *report.StatRequests) bool {
			return r.Fibers != nil && r.Fibers.Requests == want && !r.Fibers.Cut
		}, args...)
		if len(r.Endpoints) != routes || len(r.Running) != want || r.Fibers.Waiting != 30 {
			t.Errorf("stat %s: %d routes, %d in progress, %+v", all, len(r.Endpoints), len(r.Running), r.Fibers)
		}
		for _, q := range r.Running {
			if !q.Suspended || !q.Waits || q.Exception == nil || !strings.HasPrefix(*q.Exception, "KeptError") || (q.Values != nil) != typed {
				t.Errorf("stat %s: %+v", all, q)
			}
		}
		if strings.Contains(text, "zq") != typed {
			t.Errorf("stat %s: what was typed in is in it, or not: %s", all, text)
		}
		dump := run(t, append([]string{"dump", strconv.Itoa(p.PID)}, args...)...)
		dump.want(t, 0)
		kept, other := "20 for GET /kept/:id", "10 for GET /other/:id"
		if all == "--redact" {
			kept, other = "20 for GET route-", "10 for GET route-"
		} else if typed {
			// each request has its own path, so each has its own line
			kept, other = "1 for GET /kept/:id (/kept/", "?name=zq)"
		}
		if strings.Contains(dump.out, "zq") != typed || !strings.Contains(dump.out, kept) || strings.Contains(dump.out, "10 for") && routes == 1 ||
			routes == 2 && !strings.Contains(dump.out, other) {
			t.Errorf("dump %s: %s", all, dump.out)
		}
	}
	for _, command := range []string{"stat", "dump"} {
		got := run(t, command, strconv.Itoa(p.PID), "--values", "--redact", "--json")
		if got.want(t, 0); strings.Contains(got.out, "zq") {
			t.Errorf("%s --values --redact: %s", command, got.out)
		}
	}
}

// TestRequestsBesideAnEnumerator: a thread that serves a request uses an Enumerator and a fiber. Both have the request
// in their stacks. The time of the request must count once, not twice.
func TestRequestsBesideAnEnumerator(t *testing.T) {
	rubytest.OftenEnough(t)
	t.Parallel()
	p := rubytest.One(t).Start(t, `
$stdout.sync = true
def lines(env, y) = loop { y << env["PATH_INFO"] }
def helper(env) = loop { Fiber.yield env["PATH_INFO"] }
def call(env)
  $e = Enumerator.new { |y| lines(env, y) }
  $f = Fiber.new { helper(env) }
  puts "up"
  loop { $e.next; $f.resume; sleep 0.01 }
end
call({"REQUEST_METHOD" => "GET", "PATH_INFO" => "/kept", "REQUEST_URI" => "/kept", "HTTP_HOST" => "host"})`, rubytest.Options{})
	p.Expect(t, "up")
	r, _ := statUntil(t, p.PID, func(r *report.StatRequests) bool { return r.Fibers != nil && r.Fibers.Waiting == 2 && !r.Fibers.Cut })
	var fibers, threads int64
	for _, e := range r.Endpoints {
		fibers += e.FiberNS
		threads += e.NS.Sleeping
	}
	// ddtop may read the fibers before it reads the thread for the first time. Until it reads the fibers again, the
	// request can count as a request of a fiber.
	if r.Fibers.Requests != 0 || fibers > 5e8 || threads < 2e8 {
		t.Errorf("%v in fibers, %v in the thread: %+v", time.Duration(fibers), time.Duration(threads), r)
	}
}

// TestFibersOfAsync: four tasks of the gem Async serve requests of 0.6 s, each task one request after another. In one
// second, the times of all requests add up to four seconds.
func TestFibersOfAsync(t *testing.T) {
	rubytest.OftenEnough(t)
	t.Parallel()
	rubytest.Each(t, func(t *testing.T, r rubytest.Ruby) {
		if !strings.HasPrefix(r.Name, "host") {
			rubytest.Skip(t, "Async is the host's Ruby's")
		}
		if exec.Command("ruby", "-e", `require "async"`).Run() != nil {
			rubytest.Skip(t, "Async is not installed")
		}
		fibersOfAsync(t, r)
	})
}

func fibersOfAsync(t *testing.T, r rubytest.Ruby) {
	p := r.Start(t, `
require "async"
$stdout.sync = true
def call(env) = sleep(0.6)
Async do |task|
  4.times do |k|
    task.async do
      n = 0
      loop { n += 1; task.async { call({"REQUEST_METHOD" => "GET", "PATH_INFO" => "/orders/#{n}", "REQUEST_URI" => "/#{k}/#{n}", "HTTP_HOST" => "h"}) }.wait }
    end
  end
  puts "up"
end`, rubytest.Options{})
	p.Expect(t, "up")
	const window = 1e9
	statUntil(t, p.PID, func(r *report.StatRequests) bool {
		var fibers int64
		ended, measured := 0, int64(0)
		for _, e := range r.Endpoints {
			fibers, ended, measured = fibers+e.FiberNS, ended+e.Ended, measured+e.Measured
			// Each request lasts 0.6 s or longer. ddtop measures the length of a request only if it saw both its begin
			// and its end.
			if e.Measured > 0 && e.MaxNS+e.UncertaintyNS < 580e6 { // lengths are known to 3 %
				t.Fatalf("a request of %v ± %v", time.Duration(e.MaxNS), time.Duration(e.UncertaintyNS))
			}
		}
		return fibers > 4*window*8/10 && measured > 0 && ended > 0
	})
}
