package live_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// servingMethods are methods for programs. They serve requests of a few ms, and log each request.
const servingMethods = `
require "json"
def now = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
LOG = []
def work(ms)
  sleep ms / 2000.0
  till = now + ms * 500_000
  nil while now < till
  Array.new(100) { "garbage" * 10 }
end
def handle(env, ms, from)
  filled = now
  work(ms) if ms > 0
  LOG << {path: env["PATH_INFO"], tid: Thread.current.native_thread_id, from: from, filled: filled, to: now}
end
def fill(env, n)
  env["REQUEST_METHOD"], env["PATH_INFO"], env["REQUEST_URI"] = "GET", +"/r/#{n}", +"/r/#{n}"
  %w[HTTP_HOST HTTP_ACCEPT SERVER_NAME SERVER_PORT HTTP_ACCEPT_ENCODING A B C].each { |k| env[k] = +"x" }
  env
end
`

// serving is a program with two threads that serve requests of 1 to 4 ms and log each request. One thread makes a Hash
// for each request, as Puma does. The other uses one Hash for all requests, as Unicorn does.
const serving = servingMethods + `
n = 0
queues = [true, false].map do |anew|
  queue, one = Queue.new, {}
  Thread.new { loop { k, from = queue.pop, now; handle(fill(anew ? {} : one.clear, k), 1 + k % 4, from) } }
  queue
end
Thread.new { loop { queues.each { |q| q << (n += 1) }; sleep 0.012 } }
puts 1; $stdout.flush
$stdin.gets
puts LOG.to_json; $stdout.flush
$stdin.gets
`

// TestSwitchesFindRequests: ddtop must find most requests that begin and end between two samples. Each must have the
// path that its thread served at that time, according to the program's own log. If ddtop has no time to read a request,
// it must find the request without its path. It must never find a request twice.
func TestSwitchesFindRequests(t *testing.T) {
	if err := live.CheckSwitches(); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	r := rubytest.One(t)
	if !r.AtLeast(3, 1) {
		rubytest.Skip(t, "the program is written for Ruby 3.1")
	}
	for _, c := range []struct {
		name string
		// overhead is the limit on ddtop's share of a CPU. mostRead is the largest share of the requests that ddtop may
		// have time to read under this limit.
		overhead, mostRead float64
	}{{"read", 0, 1}, {"no time", 0.005, 0.9}} {
		t.Run(c.name, func(t *testing.T) {
			p := r.Start(t, serving, rubytest.Options{})
			p.Line(t)
			opts := live.Options{From: live.FromSwitches, StackRate: 20, LockRate: 20, Values: true, Overhead: c.overhead}
			findRequests(t, p, opts, c.mostRead)
		})
	}
}

// servedRequest is a request in the program's log. It began between the times From and Filled. At Filled, its
// environment (the Hash with its data) was complete.
type servedRequest struct {
	Path             string
	TID              int32
	From, Filled, To int64
}

// foundRequest is a request that ddtop found.
type foundRequest struct {
	tid  int32
	work sampler.Work
}

func findRequests(t *testing.T, p *rubytest.Process, opts live.Options, mostRead float64) {
	const enough = 120
	all, readNS := foundRequests(t, p.PID, opts, enough)
	var log []servedRequest
	p.Send(t, "")
	p.JSON(t, &log)
	found := make(map[string]bool) // by path
	first, end, read := int64(0), int64(0), 0
	for _, f := range all {
		is := f.in(log)
		if is < 0 {
			if slices.ContainsFunc(log, func(l servedRequest) bool { return l.TID == f.tid && l.From > f.work.SinceNS }) {
				t.Errorf("thread %d served no request that began between %d and %d", f.tid, f.work.BeforeNS, f.work.SinceNS)
			}
			continue // the request was not logged yet
		}
		l, behind, next := log[is], int64(0), int64(math.MaxInt64)
		for _, o := range log {
			switch {
			case o.TID != l.TID || o.From == l.From:
			case o.From < l.From:
				behind = max(behind, o.To)
			default:
				next = min(next, o.From)
			}
		}
		switch w := &f.work; {
		case l.TID != f.tid:
			t.Errorf("thread %d served %s, and not %d", l.TID, l.Path, f.tid)
		// The program logs the end of a request (To) a moment before the request ends. So the thread's next request
		// cannot begin before To.
		case w.BeforeNS > l.Filled || w.SinceNS > next || w.SinceNS < behind-readNS:
			t.Errorf("%s began between %d and %d, and was served from %d to %d, behind one to %d", l.Path, w.BeforeNS, w.SinceNS, l.From, l.To, behind)
		}
		if found[l.Path] {
			t.Errorf("%s was found twice", l.Path)
		}
		if found[l.Path] = true; f.work.Values != "" {
			read++
		}
		if first == 0 || l.From < first {
			first = l.From
		}
		end = max(end, l.To)
	}
	seen, served := 0, 0
	for _, l := range log {
		if l.From >= first && l.To <= end {
			if served++; found[l.Path] {
				seen++
			}
		}
	}
	t.Logf("%d of %d requests found, %d of them read", seen, served, read)
	if seen == 0 || 2*seen < served {
		t.Errorf("%d of %d requests were found", seen, served)
	}
	if float64(read) > mostRead*float64(seen) {
		t.Errorf("%d of %d requests were read: the limit leaves time for too many", read, seen)
	}
}

// in returns the index of the request f in the program's log. It searches for the path of f. If ddtop read no path, it
// takes the last request that the thread had begun when ddtop saw f. If there is no such request, the index is
// negative.
func (f *foundRequest) in(log []servedRequest) int {
	w := &f.work
	if w.Values != "" {
		return slices.IndexFunc(log, func(l servedRequest) bool { return l.Path == w.Values })
	}
	last := -1
	for i, l := range log {
		if l.TID == f.tid && l.From < w.SinceNS && (last < 0 || l.From > log[last].From) {
			last = i
		}
	}
	if last >= 0 && log[last].Filled < w.BeforeNS {
		return -1
	}
	return last
}

// foundRequests returns the first requests that ddtop finds in the records of thread switches. readNS is the longest
// time that the reading of a sample took. The time of a sample is the beginning of this reading. So a request in a
// sample may have begun up to readNS later than the sample's time.
func foundRequests(t *testing.T, pid int, opts live.Options, enough int) (all map[sampler.WorkNumber]foundRequest, readNS int64) {
	s, err := live.Open(t.Context(), pid, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	all = make(map[sampler.WorkNumber]foundRequest)
	ctx, cancel := context.WithTimeout(t.Context(), rubytest.Timeout)
	defer cancel()
	err = s.Run(ctx, func(x *sampler.Sample) {
		readNS = max(readNS, x.ReadNS)
		for i := range x.Changes.List {
			if c := &x.Changes.List[i]; c.Doing.Work != 0 {
				w := s.Dictionary().OwnWork(c.Doing.Work)
				all[w.Number] = foundRequest{c.TID, w}
			}
		}
		if len(all) >= enough {
			cancel()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return all, readNS
}
