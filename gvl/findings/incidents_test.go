package findings

import (
	"slices"
	"testing"

	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/sampler"
)

// TestLoopBlockedInTurn: several fibers that compute for less than a second each keep the event loop from running, too.
func TestLoopBlockedInTurn(t *testing.T) {
	for _, c := range []struct {
		name    string
		ticks   int
		blocked bool
	}{{"600 ms each", 120, true}, {"100 ms each", 20, false}} {
		s := newScene(t)
		s.named(1, "main", true)
		s.fibers = &sampler.Fibers{List: []sampler.Fiber{{Thread: 1}, {Thread: 1}, {Thread: 1}}}
		stack := s.stack("Track#pairs")
		s.play(12*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
			x := s.at(gvltest.Holder(1), stack)
			x.Bits |= sampler.BitLoopFiber
			if i/c.ticks%2 == 0 {
				x.Bits |= sampler.BitFiberTurn
			}
			x.Kernel.CPUAtNS = s.now
			return 1, []sampler.Thread{x}
		})
		if got := slices.Contains(s.ids(), ruleLoopBlocked); got != c.blocked {
			t.Errorf("%s: %v", c.name, s.f.Current())
		}
		if c.blocked {
			s.names(s.one(ruleLoopBlocked), "", "main ran fibers for long, ", "in Track#pairs (app.rb:10)",
				"3 other fibers of the thread cannot run meanwhile")
		}
	}
}

// TestBatch: a program without requests whose main thread computes uses its one CPU. That is a fact, not a fault. If
// another thread serves a request, it is a fault.
func TestBatch(t *testing.T) {
	for _, c := range []struct {
		name   string
		serves bool
		ids    []string
	}{{"batch", false, []string{"gvl_saturated"}}, {"serves", true, []string{"gvl_hog", "gvl_saturated"}}} {
		s := newScene(t)
		s.named(1, "main", true)
		if c.serves {
			s.serve(2, "GET orders#index", "")
		}
		s.turns(12*gvltest.Sec, 3, 19)
		s.want(c.name, c.ids)
		f := s.one("gvl_saturated")
		if (f.Severity == SeverityInfo) == c.serves {
			t.Errorf("%s: %v %s", c.name, f.Severity, f)
		}
		if !c.serves {
			s.names(f, "", "main has the GVL 9", "no thread serves requests or jobs")
		}
	}
}

// TestPoolHolders: the finding names the thread that has a connection of the pool, and where. Active Record lists it.
// Threads that have none are not named.
func TestPoolHolders(t *testing.T) {
	s := newScene(t)
	for id := range sampler.ThreadID(4) {
		s.named(id+1, "processor-"+itoa(int64(id+1)), false)
	}
	s.queues = &sampler.Queues{Leases: []sampler.Lease{{Queue: 0xbee, Size: 1, Owners: []sampler.ThreadID{3}}}}
	waits := s.stack("c:Thread::ConditionVariable#wait",
		"ActiveRecord::ConnectionAdapters::ConnectionPool::Queue#wait_poll", "Order.find")
	renders, other := s.stack("c:IO#read", "PdfClient.render"), s.stack("c:IO#read", "UsageJob#perform")
	s.play(8*gvltest.Sec, func(int) (sampler.ThreadID, []sampler.Thread) {
		var list []sampler.Thread
		for id := sampler.ThreadID(1); id <= 2; id++ {
			th := gvltest.Asleep(id, sampler.Stopped, sampler.BlockConditionVariable)
			th.Blocked.Object = 0xbee
			list = append(list, s.at(th, waits))
		}
		return 0, append(list, s.at(gvltest.Answered(gvltest.Released(3), s.now, "read", 9, 0), renders),
			s.at(gvltest.Answered(gvltest.Released(4), s.now, "read", 8, 0), other))
	})
	s.names(s.one("pool_wait"), "", "; 1 thread has one: processor-3 in PdfClient.render → IO#read (app.rb:10)")
}

// TestManyCallsStay: requests with twelve calls of 75 ms each are found, and the finding is active while they go
// on. Many of them are only partly in the last seconds. It also stays while there are a little fewer calls.
func TestManyCallsStay(t *testing.T) {
	const threads, cycle = 8, 16 // ticks from one call to the next
	s := newScene(t)
	to := sampler.Peer{Kind: sampler.PeerTCP, Remote: "1.2.3.4:443", Local: "10.0.0.1", Service: "HTTPS"}
	peer := s.dict.InternPeer(to)
	asks, works := s.stack("c:IO#read", "Net::BufferedIO#rbuf_fill"), s.stack("Orders#index")
	left, number := [threads + 1]int{}, sampler.WorkNumber(0)
	// play lets requests with so many calls arrive for some seconds. It counts the seconds after which the finding is
	// active.
	play := func(seconds, calls int) (active int) {
		for range seconds {
			s.play(gvltest.Sec, func(i int) (owner sampler.ThreadID, list []sampler.Thread) {
				for id := sampler.ThreadID(1); id <= threads; id++ {
					th := s.at(gvltest.Answered(gvltest.Released(id), s.now, "read", 9, peer), asks)
					if (i+2*int(id))%cycle == 0 {
						owner, th = id, s.at(gvltest.Holder(id), works)
						if left[id]--; left[id] <= 0 {
							left[id], number = calls, number+1
							s.serve(id, "GET orders#index", "")
							w := s.dict.Work(s.serving[id].Work)
							w.Number = number
							s.serving[id] = sampler.Serving{Work: s.dict.InternWork(w)}
						}
					}
					list = append(list, th)
				}
				return owner, list
			})
			for _, f := range s.f.Current() {
				if f.ID == "http_slow" && f.UntilNS == 0 && f.Title == "Many calls per request" {
					active++
				}
			}
		}
		return active
	}
	play(10, 12)
	if n := play(20, 12); n != 20 {
		t.Errorf("twelve calls in each request: active in %d of 20 seconds", n)
	}
	s.names(s.one("http_slow"), "GET orders#index", "about 12 calls in each request")
	if n := play(12, 9); n != 12 {
		t.Errorf("nine calls: active in %d of 12 seconds", n)
	}
	play(12, 3)
	if n := play(5, 3); n != 0 {
		t.Errorf("three calls: active in %d of 5 seconds", n)
	}
}

// TestFullQueueAfterFork: in a forked worker, the thread that takes from a full queue may live only in the master.
func TestFullQueueAfterFork(t *testing.T) {
	for part, want := range map[string]string{
		"w0": "no thread of this process was seen taking from it; process 77 forked it",
		"":   "no thread was seen taking from it",
	} {
		s := newScene(t)
		p := gvltest.ProcOf(sampler.EraSched)
		p.AttachedNS, p.Parent, p.Part = gvltest.Base-60_000*gvltest.MS, 77, part
		s.watch(p, nil)
		stack := s.stack("c:Thread::SizedQueue#push", "Recorder#track", "Collector#call", "Puma::Server#process_client",
			"block in Puma::Server#run", "block (2 levels) in Puma::ThreadPool#spawn_thread", "c:Kernel#loop")
		s.play(9*gvltest.Sec, func(int) (sampler.ThreadID, []sampler.Thread) {
			var list []sampler.Thread
			for id := range sampler.ThreadID(3) {
				th := gvltest.Asleep(id+1, sampler.StoppedForever, sampler.BlockQueue)
				th.Blocked.Object = 0xa0
				list = append(list, s.at(th, stack))
			}
			return 0, list
		})
		s.names(s.one("thread_wait"), "", want)
	}
}

// TestManyCalls: if each request makes many calls to a service, their number is the cause. Without requests, the
// service is slow.
func TestManyCalls(t *testing.T) {
	titles := map[string]string{"GET orders#index": "Many calls per request", "": "Another service is slow"}
	for endpoint, title := range titles {
		s := newScene(t)
		for id := sampler.ThreadID(1); id <= 5 && endpoint != ""; id++ {
			s.serve(id, endpoint, "")
		}
		to := sampler.Peer{Kind: sampler.PeerTCP, Remote: "1.2.3.4:443", Local: "10.0.0.1", Service: "HTTPS"}
		peer := s.dict.InternPeer(to)
		s.readers(9*gvltest.Sec, 5, peer, "c:IO#read", "Net::BufferedIO#rbuf_fill")
		f := s.one("http_slow")
		if f.Title != title {
			t.Errorf("%q: %q: %s", endpoint, f.Title, f)
		}
		if endpoint != "" {
			s.names(f, endpoint, " calls in each request: ", "ask for all of it in one call")
		}
	}
}
