package findings

import (
	"slices"
	"testing"

	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/sampler"
)

// TestLoopBlockedInTurn: several fibers compute one after the other, each for less than a second. Together they block
// the event loop, so there must be a finding.
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

// TestBatch: if the main thread of a program without requests computes all the time, the GVL is saturated. The finding
// reports this as a fact, not as a fault. If another thread serves a request, the finding says that the main thread
// hogs the GVL.
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

// TestPoolHolders: the finding about a pool names the thread that has a connection of the pool, and this thread's place
// in the code. Active Record's list of connections shows which thread this is. Threads without a connection are not
// named.
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

// TestManyCallsStay: there is a finding for requests with twelve calls of 75 ms each. It stays active while such
// requests arrive, although many of them are only partly in the window. It also stays if the number of calls drops a
// little.
func TestManyCallsStay(t *testing.T) {
	const threads, cycle = 8, 16 // cycle is the number of ticks from one call to the next
	s := newScene(t)
	to := sampler.Peer{Kind: sampler.PeerTCP, Remote: "1.2.3.4:443", Local: "10.0.0.1", Service: "HTTPS"}
	peer := s.dict.InternPeer(to)
	asks, works := s.stack("c:IO#read", "Net::BufferedIO#rbuf_fill"), s.stack("Orders#index")
	left, number := [threads + 1]int{}, sampler.WorkNumber(0)
	// play lets requests with the given number of calls arrive for some seconds. It returns in how many of these
	// seconds the finding was active.
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
	s.names(s.one("http_slow"), "GET orders#index", "about 1", " calls in each request")
	if n := play(12, 9); n != 12 {
		t.Errorf("nine calls: active in %d of 12 seconds", n)
	}
	play(12, 3)
	if n := play(5, 3); n != 0 {
		t.Errorf("three calls: active in %d of 5 seconds", n)
	}
}

// TestSteadyCalls: a text gives the number of calls. So that the text does not flicker, this number stays the same
// until the calls change by more than a quarter.
func TestSteadyCalls(t *testing.T) {
	var c collector
	for i, x := range []struct {
		group uint32
		calls float64
		want  int64
	}{{1, 10, 10}, {1, 12, 10}, {1, 18.7, 18}, {1, 16, 18}, {1, 23, 18}, {1, 24, 24}, {2, 25, 25}, {2, 10, 10}} {
		if got := c.steadyCalls(x.group, x.calls); got != x.want {
			t.Errorf("%d: %v calls are said to be %d, want %d", i, x.calls, got, x.want)
		}
	}
}

// TestFullQueue: threads wait to put items into a full queue, and any other thread that runs the program's code might
// take items from it. If only threads that put items into the queue run such code, the finding says that no thread
// takes from it. In a forked worker, the thread that should take may exist only in the master.
func TestFullQueue(t *testing.T) {
	const gone = "no thread of this process takes from the full queue of Recorder#track"
	for _, c := range []struct {
		name, part, title, says string
		severity                Severity
		// other is the stack of a thread that does not put into the queue, innermost frame first.
		other []string
	}{
		{"forked", "w0", "No thread empties queue",
			gone + ": process 77 forked it, and a fork copies no other threads; ", SeverityCrit, nil},
		{"not forked", "", "No thread empties queue", gone + "; requests or jobs ", SeverityCrit, nil},
		{"another thread of the program", "w0", "Work waits for threads",
			"no thread of this process was seen taking from it; process 77 forked it",
			SeverityWarn, []string{"c:IO#write", "Shipper#deliver"}},
		{"a thread whose stack is not read", "", "Work waits for threads",
			"no thread was seen taking from it", SeverityWarn, []string{}},
	} {
		s := newScene(t)
		p := gvltest.ProcOf(sampler.EraSched)
		p.AttachedNS, p.Parent, p.Part = gvltest.Base-60_000*gvltest.MS, 77, c.part
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
			if c.other != nil {
				other := sampler.StackID(0)
				if len(c.other) > 0 {
					other = s.stack(c.other...)
				}
				th := gvltest.Answered(gvltest.Released(9), s.now, "write", 9, 0)
				list = append(list, s.at(th, other))
			}
			return 0, list
		})
		f := s.one("thread_wait")
		if s.names(f, "", c.says); f.Title != c.title || f.Severity != c.severity {
			t.Errorf("%s: %v %s", c.name, f.Severity, f)
		}
	}
}

// TestRegexInTwoThreads: two threads match regular expressions endlessly. The finding always names the thread that
// began first, and says that there is one more. The advice depends on the version of Ruby.
func TestRegexInTwoThreads(t *testing.T) {
	for version, advice := range map[string]string{
		"3.1.2": "rewrite the expression without nested repetitions, limit the length of the text before it is matched; " +
			"Ruby 3.1.2 has no Regexp.timeout, 3.2 has",
		"3.4.1": "set Regexp.timeout, rewrite the expression; look at the text it was given",
		"":      "set Regexp.timeout (3.2 and later), rewrite the expression; look at the text it was given",
	} {
		s := newScene(t)
		p := gvltest.ProcOf(sampler.EraSched)
		p.AttachedNS, p.RubyVersion = gvltest.Base-60_000*gvltest.MS, version
		s.watch(p, nil)
		match, other := s.stack("c:Regexp#match", "Recipients#address"), s.stack("Work#step")
		s.serve(2, "POST /inbound", "")
		for second := range 12 {
			s.play(gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
				owner := sampler.ThreadID(1 + i/20%2)
				var list []sampler.Thread
				for id := sampler.ThreadID(1); id <= 2; id++ {
					at := match
					// the match of thread 1 begins later, but both threads hold the GVL for the same time
					if id == 1 && second == 0 {
						at = other
					}
					th := gvltest.Queued(id)
					if id == owner {
						th = gvltest.Holder(id)
					}
					list = append(list, s.at(th, at))
				}
				return owner, list
			})
			if second < 5 {
				continue
			}
			f := s.one("regex_runaway")
			s.names(f, "POST /inbound", "thread 2 has been matching", "; 1 other thread as well", advice)
			if f.Next != advice {
				t.Errorf("%q: %s", version, f.Next)
			}
		}
	}
}

// TestPoolWaitOfOneJob: a thread that waits for a connection is woken now and then, but another thread takes the
// connection first. The text gives the time for which the job has waited in total, over all these waits. If a thread
// with a connection waits for another service, the text must not advise a larger pool.
func TestPoolWaitOfOneJob(t *testing.T) {
	s := newScene(t)
	for id, job := range []string{"UsageJob", "UsageJob", "InvoiceJob"} {
		s.serve(sampler.ThreadID(id+1), job, "")
	}
	to := sampler.Peer{Kind: sampler.PeerTCP, Remote: "10.0.0.9:8080", Local: "10.0.0.1", Service: "HTTP"}
	peer := s.dict.InternPeer(to)
	takes := []string{"ConnectionPool::TimedStack#pop", "ConnectionPool#checkout", "ConnectionPool#with", "Job#run"}
	waits, wakes := s.stack(append([]string{"c:Thread::ConditionVariable#wait"}, takes...)...), s.stack(takes...)
	renders := s.stack("c:IO#read", "PdfClient.render", "ConnectionPool#with", "InvoiceJob#perform")
	s.play(14*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
		owner, list := sampler.ThreadID(0), []sampler.Thread(nil)
		for id := sampler.ThreadID(1); id <= 2; id++ {
			th := gvltest.Asleep(id, sampler.Stopped, sampler.BlockConditionVariable)
			th.Blocked.Object = 0xbee
			if x := s.at(th, waits); i%200 != 0 {
				list = append(list, x)
			} else if id == 1 {
				owner, list = id, append(list, s.at(gvltest.Holder(id), wakes))
			} else {
				list = append(list, s.at(gvltest.Queued(id), wakes))
			}
		}
		return owner, append(list, s.at(gvltest.Answered(gvltest.Released(3), s.now, "read", 9, peer), renders))
	})
	s.names(s.one("pool_wait"), "InvoiceJob", "(fd 9)), for InvoiceJob", ", longest wait ",
		" in all ≥13.8 s for one request or job",
		"give the connection back before waiting for 10.0.0.9:8080 HTTP; a larger pool only moves the limit")
}

// TestFindingsNameTheRoute: a finding names the route that most of its threads work for. This also holds if threads
// without a request cause the problem, and the threads with this route are only slowed down.
func TestFindingsNameTheRoute(t *testing.T) {
	s := newScene(t)
	for id := sampler.ThreadID(3); id <= 5; id++ {
		s.serve(id, "POST /entries", "")
	}
	locked := func(id, holder sampler.ThreadID, object uint64) sampler.Thread {
		th := gvltest.Asleep(id, sampler.StoppedForever, sampler.BlockMutex)
		th.Blocked.Object, th.Blocked.Holder = object, holder
		return s.at(th, s.stack("c:Thread::Mutex#lock", "Ledger#post"))
	}
	s.play(8*gvltest.Sec, func(int) (sampler.ThreadID, []sampler.Thread) {
		return 0, []sampler.Thread{
			locked(1, 2, 0xa), locked(2, 1, 0xb), locked(3, 2, 0xb), locked(4, 2, 0xb), locked(5, 2, 0xb),
		}
	})
	s.names(s.one("deadlock"), "POST /entries", "; 3 more stuck, most for POST /entries")

	s = newScene(t)
	s.serve(1, "GET /parcels/:code", "")
	s.play(8*gvltest.Sec, func(int) (sampler.ThreadID, []sampler.Thread) {
		th := gvltest.Answered(gvltest.Released(1), gvltest.Base, "write", 1, 0)
		return 0, []sampler.Thread{s.at(th, s.stack("c:IO#write", "Logger::LogDevice#write"))}
	})
	s.names(s.one("log_blocked"), "GET /parcels/:code", "for GET /parcels/:code")
}

// TestManyCalls: if each request makes many calls to a service, the finding says that their number is the problem. If
// the threads serve no requests, the finding says that the service is slow.
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
