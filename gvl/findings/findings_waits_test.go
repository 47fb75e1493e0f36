package findings

import (
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/sampler"
)

// readers plays n threads that read from a peer nearly all the time. Between two reads, a thread holds the GVL for one
// tick.
func (s *scene) readers(d int64, n int, peer sampler.PeerID, labels ...string) {
	s.play(d, func(i int) (sampler.ThreadID, []sampler.Thread) {
		var list []sampler.Thread
		owner := sampler.ThreadID(i%(8*n) + 1) // a call takes 8*n ticks: 200 ms with five threads
		for id := sampler.ThreadID(1); int(id) <= n; id++ {
			if id == owner {
				list = append(list, s.at(gvltest.Holder(id), s.stack("Work#step")))
				continue
			}
			list = append(list, s.at(gvltest.Answered(gvltest.Released(id), s.now, "read", 9, peer), s.stack(labels...)))
		}
		if int(owner) > n {
			owner = 0
		}
		return owner, list
	})
}

// TestKeptConnections: workers of a server that wait for the next requests of their clients are at rest. Their time is
// not I/O time. The finding io_busy names a peer, and a place in the code of a thread that waits for this peer.
func TestKeptConnections(t *testing.T) {
	server := []string{"Puma::Server#process_client", "block in Puma::Server#run", "block (2 levels) in Puma::ThreadPool#spawn_thread", "c:Kernel#loop"}
	kept := append([]string{"c:IO#wait_readable", "Puma::Client#reset"}, server...)
	read := append([]string{"c:IO#read", "X#y", "X#call"}, server...)
	s := newScene(t)
	client := s.dict.InternPeer(sampler.Peer{Kind: sampler.PeerTCP, Local: "10.0.0.1:80", Remote: "10.0.0.9"})
	s.readers(9*gvltest.Sec, 5, client, kept...)
	s.want("all wait for clients", nil)

	s = newScene(t)
	pipe := s.dict.InternPeer(sampler.Peer{Kind: sampler.PeerPipe, Path: "pipe:[1]"})
	s.play(9*gvltest.Sec, func(int) (sampler.ThreadID, []sampler.Thread) {
		var list []sampler.Thread
		for id := sampler.ThreadID(1); id <= 4; id++ {
			peer, stack := client, kept
			// thread 1 waits for its client in every 4th sample, and the other threads in every 40th
			if s.tick%40 != 0 && id > 1 || s.tick%4 != 0 && id == 1 {
				peer, stack = pipe, read
			}
			list = append(list, s.at(gvltest.Answered(gvltest.Released(id), s.now, "read", 9, peer), s.stack(stack...)))
		}
		return 0, list
	})
	s.play(gvltest.MS, func(int) (sampler.ThreadID, []sampler.Thread) {
		list := []sampler.Thread{s.at(gvltest.Answered(gvltest.Released(1), s.now, "read", 9, client), s.stack(kept...))}
		for id := sampler.ThreadID(2); id <= 4; id++ {
			list = append(list, s.at(gvltest.Answered(gvltest.Released(id), s.now, "read", 9, pipe), s.stack(read...)))
		}
		return 0, list
	})
	s.want("the first is with its client", []string{"io_busy"}, "pipe:[1]", "now in X#y → IO#read (app.rb:10)")
}

func TestSlowPeers(t *testing.T) {
	tcp := func(remote, service string) sampler.Peer {
		return sampler.Peer{Kind: sampler.PeerTCP, Remote: remote, Local: "10.0.0.1", Service: service}
	}
	tests := []struct {
		name  string
		peer  sampler.Peer
		stack []string
		ids   []string
		words []string
	}{
		{"postgres", tcp("10.0.0.5:5432", "PostgreSQL"), []string{"c:PG::Connection#exec", "Order.find"}, []string{"db_slow"},
			[]string{"10.0.0.5:5432 PostgreSQL", "Order.find → PG::Connection#exec", "of the busy time"}},
		{"own database", tcp("127.0.0.1", ""), []string{"c:IO#gets", "DB#read_answer", "DB#query"}, []string{"db_slow"},
			[]string{"127.0.0.1", "DB#read_answer"}},
		{"local", sampler.Peer{Kind: sampler.PeerTCP, Remote: "127.0.0.1:9999", Local: "127.0.0.1:41000", Process: "puma (pid 12)"},
			[]string{"c:IO#read", "Net::BufferedIO#rbuf_fill"}, []string{"http_slow"},
			[]string{"127.0.0.1:9999, where puma (pid 12) listens, ", " calls per second: half take ≤ 197 ms, 95 % ≤ 197 ms, the longest ≤ 197 ms"}},
		{"redis", tcp("10.0.0.6:6379", "Redis"), []string{"c:IO#read", "RedisClient#call"}, []string{"redis_slow"}, []string{"Redis"}},
		{"http", tcp("1.2.3.4:443", "HTTPS"), []string{"c:IO#read", "Net::BufferedIO#rbuf_fill"}, []string{"http_slow"},
			[]string{"1.2.3.4:443 HTTPS"}},
		{"clients", sampler.Peer{Kind: sampler.PeerTCP, Remote: "9.9.9.9", Local: "10.0.0.1:80"},
			[]string{"c:IO#read", "Puma::Client#read"}, nil, nil},
		{"subscriber", tcp("10.0.0.6:6379", "Redis"), []string{"c:IO#read", "Redis::SubscribedClient#loop"}, nil, nil},
		{"pipe", sampler.Peer{Kind: sampler.PeerPipe, Path: "pipe:[1]"}, []string{"c:IO#read", "X#y"}, []string{"io_busy"},
			[]string{"pipe:[1]", "5 threads (thread)", "now in X#y → IO#read (app.rb:10)"}},
	}
	for _, tt := range tests {
		s := newScene(t)
		s.readers(9*gvltest.Sec, 5, s.dict.InternPeer(tt.peer), tt.stack...)
		s.want(tt.name, tt.ids, tt.words...)
	}
}

// callers plays n threads for d ns. There are 20 samples per second, and in all of them each thread reads from a peer.
// But the threads make calls of 400 ms, and use cpuNS of CPU time in each call. Their CPU counters, which are read four
// times per second, show this.
func (s *scene) callers(d, cpuNS int64, n int, peer sampler.PeerID) {
	const reading, call = 250 * gvltest.MS, 400 * gvltest.MS
	stack := s.stack("c:IO#gets", "Client#ask")
	for end := s.now + d; s.now < end; {
		s.now += 50*gvltest.MS - sceneTick // play adds sceneTick, so samples are 50 ms apart
		s.play(sceneTick, func(int) (sampler.ThreadID, []sampler.Thread) {
			var list []sampler.Thread
			for id := range sampler.ThreadID(n) {
				th := s.at(gvltest.Answered(gvltest.Released(id+1), s.now, "read", 9, peer), stack)
				th.Kernel.CPUAtNS = s.now / reading * reading
				th.Kernel.CPUNS = th.Kernel.CPUAtNS / call * cpuNS
				th.Kernel.StateAtNS = th.Kernel.CPUAtNS
				list = append(list, th)
			}
			return 0, list
		})
	}
}

// TestCallsBetweenSamples: threads call a slow service again and again, and every sample shows them waiting for its
// answer. Their counters show that they had a CPU in between, so each thread made several calls. ddtop must not treat
// them as threads that read one endless stream. No text may report the whole time as the length of a single wait.
func TestCallsBetweenSamples(t *testing.T) {
	for _, c := range []struct {
		what  string
		cpuNS int64
		ids   []string
	}{{"1 ms a call", gvltest.MS, []string{"http_slow"}}, {"messages never come", 0, nil}, {"stopped and continued again and again", 30_000, nil}} {
		s := newScene(t)
		peer := s.dict.InternPeer(sampler.Peer{Kind: sampler.PeerTCP, Remote: "1.2.3.4:443", Local: "10.0.0.1", Service: "HTTPS"})
		s.callers(15*gvltest.Sec, c.cpuNS, 3, peer)
		s.want(c.what, c.ids)
		if longest := s.f.win.state(1).DurationNS(); c.ids != nil && longest > 2*gvltest.Sec || c.ids == nil && longest < 14*gvltest.Sec {
			t.Errorf("%s: the wait going on has lasted %v ns", c.what, longest)
		}
		// From now on, samples also show the threads at work. In the twelve seconds before, all samples showed them
		// waiting. Texts must still not report a single wait of twelve seconds.
		s.readers(5*gvltest.Sec, 3, peer, "c:IO#gets", "Client#ask")
		if c.ids != nil {
			s.want(c.what+", then seen at work", c.ids)
		}
	}
}

// TestNotReachable: repeated attempts to connect to a service mean that it is not reachable, not that it answers
// slowly. If the thread reads after each connection, the service answers slowly.
func TestNotReachable(t *testing.T) {
	for _, c := range []struct {
		name   string
		call   string
		labels []string
		title  string
	}{
		{"connects in C", "connect", []string{"c:TCPSocket#initialize", "Client#open"}, "Database not reachable"},
		{"connects in Ruby", "ppoll", []string{"c:IO#wait_writable", "Addrinfo#connect_internal", "Client#open"}, "Database not reachable"},
		{"reads", "read", []string{"c:IO#gets", "Client#ask"}, "Database slow"},
		{"reads in a block of connect", "read", []string{"c:IO#gets", "block in Client#ask", "Addrinfo#connect_internal"}, "Database slow"},
	} {
		s := newScene(t)
		peer := s.dict.InternPeer(sampler.Peer{Kind: sampler.PeerTCP, Remote: "1.2.3.4:5432", Local: "10.0.0.1", Service: "PostgreSQL"})
		stack := s.stack(c.labels...)
		s.play(8*gvltest.Sec, func(int) (sampler.ThreadID, []sampler.Thread) {
			var list []sampler.Thread
			for id := range sampler.ThreadID(3) {
				list = append(list, s.at(gvltest.Answered(gvltest.Released(id+1), s.now, c.call, 9, peer), stack))
			}
			return 0, list
		})
		s.want(c.name, []string{"db_slow"}, c.title)
	}
}

func TestOtherWaits(t *testing.T) {
	s := newScene(t)
	s.play(8*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
		return 0, []sampler.Thread{
			s.at(gvltest.Answered(gvltest.Released(1), s.now, "futex", -1, 0), s.stack("c:Addrinfo.getaddrinfo", "Http#get")), gvltest.Asleep(2, 1, sampler.BlockSleep),
		}
	})
	s.want("dns", []string{"dns_slow"}, "1 thread resolves a name")

	s = newScene(t)
	nameServer := s.dict.InternPeer(sampler.Peer{Kind: sampler.PeerUDP, Remote: "127.0.0.1:53", Service: "DNS"})
	asking := []sampler.StackID{s.stack("c:Addrinfo.getaddrinfo", "A#b"), s.stack("c:Addrinfo.getaddrinfo", "A#c")}
	s.play(8*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
		var list []sampler.Thread
		for id := range sampler.ThreadID(3) {
			list = append(list, s.at(gvltest.Answered(gvltest.Released(id+1), s.now, "poll", 9, nameServer), asking[i/20%2]))
		}
		return 0, list
	})
	s.want("a name server is not another service", []string{"dns_slow"}, "3 threads resolve a name")

	s = newScene(t)
	s.named(3, "", true)
	run := s.stack("c:Kernel#system", "Work#run")
	s.play(8*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
		list := []sampler.Thread{gvltest.Asleep(1, sampler.Stopped, sampler.BlockChild), gvltest.Asleep(2, sampler.Stopped, sampler.BlockChild),
			gvltest.Asleep(3, sampler.Stopped, sampler.BlockChild), gvltest.Asleep(4, sampler.Stopped, sampler.BlockChild)}
		for i := range list[:3] {
			list[i].Stack = run
		}
		list[0].Blocked.Child = 77
		return 0, list // the fourth thread has no frame, because it belongs to Process.detach
	})
	s.want("children", []string{"child_wait"}, "2 threads wait for child processes", "pid 77")

	s = newScene(t)
	poolStack := func() sampler.StackID {
		return s.stack("c:Thread::ConditionVariable#wait", "MonitorMixin::ConditionVariable#wait",
			"block in ActiveRecord::ConnectionAdapters::ConnectionPool::Queue#wait_poll", "Order.find")
	}
	pool := poolStack()
	s.play(6*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
		return 0, []sampler.Thread{s.at(gvltest.Asleep(1, sampler.Stopped, sampler.BlockConditionVariable), pool),
			s.at(gvltest.Asleep(2, sampler.Stopped, sampler.BlockConditionVariable), pool)}
	})
	s.want("pool", []string{"pool_wait"}, "2 threads wait for a connection", "longest wait 5.75 s in")

	// Threads wait for a pool, and the thread with the pool's connection calls another service meanwhile. Sidekiq's
	// scheduler sleeps in a pool of its own, and its time must not be included.
	s = newScene(t)
	s.named(3, "worker-3", false)
	checkout := s.stack("c:Thread::ConditionVariable#wait", "ConnectionPool::TimedStack#pop", "ConnectionPool#checkout", "ConnectionPool#with",
		"Job#perform")
	renders := s.stack("c:IO#wait_readable", "Renderer.render", "block in Job#perform", "block (2 levels) in ConnectionPool#with", "Job#perform")
	scheduler := s.stack("c:Thread::ConditionVariable#wait", "ConnectionPool::TimedStack#pop", "Sidekiq::Scheduled::Poller#initial_wait")
	s.play(6*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
		return 0, []sampler.Thread{s.at(gvltest.Asleep(1, sampler.Stopped, sampler.BlockConditionVariable), checkout),
			s.at(gvltest.Asleep(2, sampler.Stopped, sampler.BlockConditionVariable), checkout),
			s.at(gvltest.Answered(gvltest.Released(3), s.now, "read", 9, 0), renders),
			s.at(gvltest.Asleep(4, sampler.Stopped, sampler.BlockConditionVariable), scheduler)}
	})
	s.want("holders of a pool", []string{"pool_wait"}, "2 threads wait for a connection",
		"; 1 thread has one: worker-3 in Renderer.render → IO#wait_readable")

	// One of nine threads waits for the pool again and again. If each of its waits takes 1.2 s, there is a finding. The
	// finding is also active between two waits, because earlier waits are still in the window. If the waits take 700
	// ms, there is no finding.
	for _, c := range []struct {
		what   string
		waitNS int64
		want   []string
	}{{"short waits for a pool", 700 * gvltest.MS, []string{"io_busy"}}, {"a wait for a pool, again and again", 1200 * gvltest.MS, []string{"pool_wait"}}} {
		s = newScene(t)
		pool, busy := poolStack(), []sampler.StackID{s.stack("Work#a"), s.stack("Work#b")}
		s.play(12*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
			var list []sampler.Thread
			for id := sampler.ThreadID(2); id < 10; id++ {
				list = append(list, s.at(gvltest.Answered(gvltest.Released(id), s.now, "read", 9, 0), busy[i%2]))
			}
			if into := int64(i) * sceneTick % (2 * gvltest.Sec); into < c.waitNS {
				return 0, append(list, s.at(gvltest.Asleep(1, sampler.Stopped, sampler.BlockConditionVariable), pool))
			}
			return 1, append(list, s.at(gvltest.Holder(1), busy[i%2]))
		})
		s.want(c.what, c.want)
		if slices.Contains(c.want, "pool_wait") {
			s.play(500*gvltest.MS, func(i int) (sampler.ThreadID, []sampler.Thread) {
				return 1, []sampler.Thread{s.at(gvltest.Holder(1), busy[i%2])}
			})
			s.want("between two of them", c.want, "threads waited for a connection, longest wait 1.2 s")
		}
	}

	s = newScene(t)
	pipe := s.dict.InternPeer(sampler.Peer{Kind: sampler.PeerPipe, Path: "pipe:[1]"})
	writing := func(peer sampler.PeerID) {
		s.play(3*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
			behind := gvltest.Asleep(2, sampler.StoppedForever, sampler.BlockMutex)
			behind.Blocked.Holder, behind.Blocked.Object = 1, 0xa0
			return 0, []sampler.Thread{s.at(gvltest.Answered(gvltest.Released(1), s.now, "write", 1, peer), s.stack("c:IO#write", "X#y")), behind}
		})
	}
	writing(pipe)
	s.want("log", []string{"log_blocked"}, "stdout", "1 thread waits behind it")
	s = newScene(t)
	tty := s.dict.InternPeer(sampler.Peer{Kind: sampler.PeerTTY, Path: "/dev/pts/1"})
	writing(tty)
	if slices.Contains(s.ids(), "log_blocked") {
		t.Error("a paused terminal is not a blocked log")
	}
}

// TestLongPolling: some requests only wait for news, with a time limit. While the server has a free worker, this is no
// problem, so there is no finding. Without a time limit, or without a free worker, there is a finding.
func TestLongPolling(t *testing.T) {
	server := []string{"Puma::Server#process_client", "block in Puma::Server#run",
		"block (2 levels) in Puma::ThreadPool#spawn_thread", "c:Kernel#loop"}
	polls := append([]string{"c:Thread::Mutex#sleep", "c:Thread::ConditionVariable#wait", "Channel#since"}, server...)
	free := []string{"c:Thread::Mutex#sleep", "c:Thread::ConditionVariable#wait",
		"block (2 levels) in Puma::ThreadPool#spawn_thread", "c:Kernel#loop"}
	for _, c := range []struct {
		what    string
		status  sampler.Status
		workers int // workers that wait for a request
		ids     []string
	}{
		{"long polling", sampler.Stopped, 2, nil},
		{"no worker is free", sampler.Stopped, 0, []string{"thread_wait"}},
		{"no time limit", sampler.StoppedForever, 2, []string{"thread_wait"}},
	} {
		s := newScene(t)
		s.play(9*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
			var list []sampler.Thread
			for id := range 4 + c.workers {
				stack, status := polls, c.status
				if id >= 4 {
					stack, status = free, sampler.StoppedForever
				}
				th := gvltest.Asleep(sampler.ThreadID(id+1), status, sampler.BlockConditionVariable)
				list = append(list, s.at(th, s.stack(stack...)))
			}
			return 0, list
		})
		s.want(c.what, c.ids)
	}
}

// TestCollectionsAreNotBlamedOnWaits: a thread that only waits makes no objects, so it cannot cause a collection. If a
// collecting thread has such a stack, the stack was read before the collection, so the finding does not name it. A
// thread that reads makes Strings, so the finding can name its stack.
func TestCollectionsAreNotBlamedOnWaits(t *testing.T) {
	for innermost, blamed := range map[string]bool{"c:IO#wait_readable": false, "c:Kernel#sleep": false,
		"c:Thread::Queue#pop": false, "c:IO#gets": true, "c:Array#map": true} {
		s := newScene(t)
		s.play(9*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
			s.gc.During = i%10 < 4
			return 1, []sampler.Thread{s.at(gvltest.Holder(1), s.stack(innermost, "Client#reset"))}
		})
		s.want(innermost, []string{"gc_pressure"})
		f := s.f.Current()[0]
		if strings.Contains(f.Text, "Client#reset") != blamed || strings.Contains(f.Next, "view 7") == blamed {
			t.Errorf("%s: %+v", innermost, f)
		}
	}
}
