package findings

import (
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

func TestIdle(t *testing.T) {
	s := newScene(t)
	listener := s.dict.InternPeer(sampler.Peer{Kind: sampler.PeerListener, Local: "0.0.0.0:9292"})
	client := s.dict.InternPeer(sampler.Peer{Kind: sampler.PeerTCP, Local: "10.0.0.1:9292", Remote: "10.0.0.9"})
	r := NewResting(s.dict)
	for _, c := range []struct {
		what string
		ts   gvl.ThreadState
		want string
	}{
		{"accepts", gvl.ThreadState{State: gvl.IO, Detail: gvl.Detail{Op: gvl.OpAccept}}, "accepts connections"},
		{"selects at a listening socket", gvl.ThreadState{State: gvl.IO, Detail: gvl.Detail{Op: gvl.OpSelect, Peer: listener}}, "accepts connections"},
		{"Puma's loop", gvl.ThreadState{State: gvl.IO, Detail: gvl.Detail{Op: gvl.OpSelect, FDs: 2}, Stack: s.stack("c:IO.select", "block in Puma::Server#handle_servers")}, "accepts connections"},
		{"a job asked for", gvl.ThreadState{State: gvl.IO, Detail: gvl.Detail{Op: gvl.OpRead}, Stack: s.stack("c:IO#wait_readable", "Redis#brpop", "Sidekiq::BasicFetch#retrieve_work")}, "waits for input"},
		{"a processor of Sidekiq 7 that asks for a job", gvl.ThreadState{State: gvl.IO, Detail: gvl.Detail{Op: gvl.OpRead}, Stack: s.stack("c:IO#wait_readable",
			"RedisClient::ConnectionMixin#call", "RedisClient#blocking_call_v", "Sidekiq::BasicFetch#retrieve_work", "Sidekiq::Processor#get_one", "Sidekiq::Processor#run")}, "waits for work"},
		{"Puma's reactor", gvl.ThreadState{State: gvl.IO, Detail: gvl.Detail{Op: gvl.OpSelect, FDs: 2},
			Stack: s.stack("c:NIO::Selector#select", "Puma::Reactor#select_loop")}, "waits for input"},
		{"WEBrick's loop", gvl.ThreadState{State: gvl.IO, Detail: gvl.Detail{Op: gvl.OpSelect, FDs: 3},
			Stack: s.stack("c:IO.select", "block in WEBrick::GenericServer#start", "WEBrick::GenericServer#start")}, "accepts connections"},
		{"Sidekiq's main thread", gvl.ThreadState{State: gvl.IO, Detail: gvl.Detail{Op: gvl.OpSelect, FDs: 2},
			Stack: s.stack("c:IO#wait_readable", "Sidekiq::CLI#launch", "Sidekiq::CLI#run")}, "waits for input"},
		{"the loop of Async 1", gvl.ThreadState{State: gvl.IO, Detail: gvl.Detail{Op: gvl.OpPoll},
			Stack: s.stack("c:NIO::Selector#select", "Async::Reactor#run_once", "Async::Reactor#run")}, "waits for input"},
		{"the loop of Async 2", gvl.ThreadState{State: gvl.IO, Detail: gvl.Detail{Op: gvl.OpPoll},
			Stack: s.stack("c:IO::Event::Selector::EPoll#select", "Async::Scheduler#run_once!")}, "waits for input"},
		{"a client that has its own loop of Async", gvl.ThreadState{State: gvl.IO, Detail: gvl.Detail{Op: gvl.OpRead},
			Stack: s.stack("c:IO#read", "App#get", "App#all", "c:Kernel#loop", "Async::Reactor#run_once")}, ""},
		{"the next request on a connection that Puma kept", gvl.ThreadState{State: gvl.IO, Detail: gvl.Detail{Op: gvl.OpPoll, FDs: 1, Peer: client},
			Stack: s.stack("c:IO#wait_readable", "Puma::Client#reset", "Puma::Server#process_client")}, "waits for input"},
		{"the body of a slow client", gvl.ThreadState{State: gvl.IO, Detail: gvl.Detail{Op: gvl.OpPoll, FDs: 1, Peer: client},
			Stack: s.stack("c:IO#wait_readable", "Puma::Client#finish", "Puma::Server#process_client")}, ""},
		{"the next request on a connection that WEBrick kept", gvl.ThreadState{State: gvl.IO, Detail: gvl.Detail{Op: gvl.OpRead, Peer: client},
			Stack: s.stack("c:IO#gets", "WEBrick::HTTPRequest#_read_data", "WEBrick::HTTPRequest#read_line", "WEBrick::HTTPRequest#read_request_line")}, "waits for input"},
		{"reads a request", gvl.ThreadState{State: gvl.IO, Detail: gvl.Detail{Op: gvl.OpRead, Peer: client}, Stack: s.stack("c:IO#read", "App#call")}, ""},
		{"selects for an answer", gvl.ThreadState{State: gvl.IO, Detail: gvl.Detail{Op: gvl.OpSelect, FDs: 1}, Stack: s.stack("c:IO.select", "Net::BufferedIO#rbuf_fill")}, ""},
		{"parked", gvl.ThreadState{State: gvl.Parked}, ""},
	} {
		if got := r.Idle(c.ts.State, &c.ts.Detail, c.ts.Stack); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
		if rests := r.Rests(c.ts.State, &c.ts.Detail, c.ts.Stack, 0); rests != (c.want != "" || c.ts.State == gvl.Parked) {
			t.Errorf("%s: rests %v", c.what, rests)
		}
	}
}

// TestWhatRests: a thread that sleeps or waits for another thread during a request or a job is not at rest. This holds
// whether ddtop finds the request by the thread's stack or by the record of the request.
func TestWhatRests(t *testing.T) {
	s := newScene(t)
	r := NewResting(s.dict)
	work := s.dict.InternWork(sampler.Work{Number: 1, Endpoint: "GET /"})
	puma := []string{"Shop#pay", "Shop#call", "Puma::Configuration#call", "Puma::Server#process_client", "block in Puma::ThreadPool#spawn_thread"}
	for _, c := range []struct {
		what  string
		state gvl.State
		stack []string
		work  sampler.WorkID
		want  gvl.State
	}{
		{"a loop that sleeps", gvl.Sleeping, []string{"c:Kernel#sleep", "Poller#run"}, 0, gvl.Parked},
		{"sleeps in a request", gvl.Sleeping, append([]string{"c:Kernel#sleep"}, puma...), 0, gvl.Sleeping},
		{"sleeps in a request of a server not known by its methods", gvl.Sleeping, []string{"c:Kernel#sleep", "Falcon#call"}, work, gvl.Sleeping},
		{"waits for another thread in one", gvl.Parked, []string{"c:Thread#join", "Falcon#call"}, work, gvl.Lock},
		{"a worker without a request", gvl.Parked, []string{"c:ConditionVariable#wait", "block in Puma::ThreadPool#spawn_thread"}, 0, gvl.Parked},
		{"waits for a connection", gvl.Sleeping, []string{"c:ConditionVariable#wait", "ConnectionPool#checkout"}, 0, gvl.Lock},
		{"runs", gvl.Running, puma, 0, gvl.Running},
	} {
		if got := r.State(c.state, new(gvl.Detail), s.stack(c.stack...), c.work); got != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}
