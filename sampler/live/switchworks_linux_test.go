package live_test

import (
	"context"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// serving has two threads that serve requests of 1 to 4 ms, and says which. One makes a Hash for each request, as Puma
// does. The other uses one Hash for all, as Unicorn does.
const serving = `
require "json"
def now = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
LOG = []
def work(ms)
  sleep ms / 2000.0
  till = now + ms * 500_000
  nil while now < till
end
def handle(env, ms)
  from = now
  work(ms)
  Array.new(100) { "garbage" * 10 }
  LOG << {path: env["PATH_INFO"], tid: Thread.current.native_thread_id, from: from, to: now}
end
def fill(env, n)
  env["REQUEST_METHOD"], env["PATH_INFO"], env["REQUEST_URI"] = "GET", +"/r/#{n}", +"/r/#{n}"
  %w[HTTP_HOST HTTP_ACCEPT SERVER_NAME SERVER_PORT HTTP_ACCEPT_ENCODING A B C].each { |k| env[k] = +"x" }
  env
end
n = 0
queues = [true, false].map do |anew|
  queue, one = Queue.new, {}
  Thread.new { loop { queue.pop.then { |k| handle(fill(anew ? {} : one.clear, k), 1 + k % 4) } } }
  queue
end
Thread.new { loop { queues.each { |q| q << (n += 1) }; sleep 0.012 } }
puts 1; $stdout.flush
$stdin.gets
puts LOG.to_json; $stdout.flush
$stdin.gets
`

// TestSwitchesFindRequests: most requests that begin and end between two samples are found, each with the path that its
// thread served then by the program's own log.
func TestSwitchesFindRequests(t *testing.T) {
	if err := live.CheckSwitches(); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	r := rubytest.One(t)
	if !r.AtLeast(3, 1) {
		rubytest.Skip(t, "the program is written for Ruby 3.1")
	}
	p := r.Start(t, serving, rubytest.Options{})
	p.Line(t)
	s, err := live.Open(t.Context(), p.PID, live.Options{From: live.FromSwitches, StackRate: 20, LockRate: 20, Values: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	type found struct {
		tid  int32
		work sampler.Work
	}
	all := make(map[sampler.WorkNumber]found)
	ctx, cancel := context.WithTimeout(t.Context(), rubytest.Timeout)
	defer cancel()
	const enough = 120
	err = s.Run(ctx, func(x *sampler.Sample) {
		for i := range x.Changes.List {
			if c := &x.Changes.List[i]; c.Doing.Work != 0 {
				w := s.Dictionary().OwnWork(c.Doing.Work)
				all[w.Number] = found{c.TID, w}
			}
		}
		if len(all) >= enough {
			cancel()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	type logged struct {
		Path     string
		TID      int32
		From, To int64
	}
	var log []logged
	p.Send(t, "")
	p.JSON(t, &log)
	before := make(map[string]logged) // the thread's request before the one of a path
	of, last := make(map[string]logged), make(map[int32]logged)
	for _, l := range log {
		before[l.Path], of[l.Path] = last[l.TID], l
		last[l.TID] = l
	}
	first, end := int64(0), int64(0)
	for _, f := range all {
		l, is := of[f.work.Values]
		switch w := &f.work; {
		case !is:
			continue // it was not logged yet
		case l.TID != f.tid:
			t.Errorf("thread %d served %s, and not %d", l.TID, l.Path, f.tid)
		case w.BeforeNS > l.From || w.SinceNS > l.To || w.SinceNS < before[l.Path].To:
			t.Errorf("%s began between %d and %d, and was served from %d to %d, behind one to %d", l.Path, w.BeforeNS, w.SinceNS, l.From, l.To, before[l.Path].To)
		}
		if first == 0 || l.From < first {
			first = l.From
		}
		end = max(end, l.To)
	}
	seen, served := 0, 0
	paths := make(map[string]bool)
	for _, f := range all {
		if paths[f.work.Values] {
			t.Errorf("%s was found twice", f.work.Values)
		}
		paths[f.work.Values] = true
	}
	for _, l := range log {
		if l.From >= first && l.To <= end {
			if served++; paths[l.Path] {
				seen++
			}
		}
	}
	t.Logf("%d of %d requests found", seen, served)
	if seen == 0 || 2*seen < served {
		t.Errorf("%d of %d requests were found", seen, served)
	}
}
