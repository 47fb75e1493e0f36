package findings

import (
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/gvl/code"
	"github.com/ddtop/ddtop/gvl/findings/internal/stackkind"
	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/sampler"
)

// internOrigins interns a stack, innermost frame first. A prefix of a label says where the code comes from. "c:" is a C
// function, "gem:" and "lib:" are libraries, and "eval:" is code that a library made. "ru:" is a server's config.ru,
// and "old:" is code of unknown origin.
func internOrigins(dict *sampler.Dictionary, labels []string) sampler.StackID {
	var ids []sampler.FrameID
	for _, l := range labels {
		f := sampler.Frame{Path: "x.rb", Line: 1, Origin: sampler.OriginApp}
		for mark, origin := range map[string]sampler.Origin{"c:": sampler.OriginCore, "gem:": sampler.OriginGem, "lib:": sampler.OriginStdlib, "old:": sampler.OriginUnknown, "eval:": sampler.OriginEval, "ru:": sampler.OriginEval} {
			if rest, ok := strings.CutPrefix(l, mark); ok {
				l, f.Origin, f.C = rest, origin, origin == sampler.OriginCore
				f.Path = map[string]string{"eval:": "(eval at /g/gems/active-1.0/lib/active.rb:7)", "ru:": "config.ru"}[mark]
			}
		}
		f.Label = l
		ids = append(ids, dict.InternFrame(f))
	}
	return dict.InternStackOf(ids)
}

func TestWhereNamesTheProgramsOwnMethod(t *testing.T) {
	deep := []string{"c:PG::Connection#exec"}
	for range 60 {
		deep = append(deep, "gem:Active#frame")
	}
	for _, c := range []struct {
		want   string
		labels []string
	}{
		{"Reports#build → JSON.generate", []string{"c:JSON.generate", "block in Reports#build", "Reports#all"}},
		{"Work#step", []string{"Work#step", "Work#run"}},
		{"IO#read", []string{"c:IO#read"}},
		{"<main> → Kernel#sleep", []string{"c:Kernel#sleep", "<main>"}},
		{"Shop#show → PG::Connection#exec", append(deep, "block in Shop#show", "gem:Rack#call", "<main>")},
		{"Shop#show → Net::BufferedIO#rbuf_fill", []string{"c:IO#wait_readable", "lib:Net::BufferedIO#rbuf_fill", "lib:Net::HTTP#get", "Shop#show"}},
		{"Shop#show → Integer#to_s", []string{"c:Integer#to_s", "gem:Numeric#to_s", "c:Array#map", "Shop#show"}},
		{"Shop#show → Hash#merge_all", []string{"gem:Hash#merge_all", "Shop#show"}},
		{"Shop#show → IO#read", []string{"c:IO#read", "Shop#show"}},
		// The top level of bin/puma does not count as the program's own code, so only the server's methods are shown.
		{"Puma::Cluster#run → IO#wait_readable", []string{"c:IO#wait_readable", "gem:Puma::Cluster#run", "<top (required)>", "c:Kernel#load", "<main>"}},
		{"Shop#show → PG::Connection#exec", []string{"c:PG::Connection#exec", "gem:Active#frame", "ru:Shop#show"}},
		{"Active#made → PG::Connection#exec", []string{"c:PG::Connection#exec", "eval:Active#made", "gem:Rack#call"}},
		// A route of Sinatra is a block in the body of a class. It counts as the program's own code.
		{"block in <class:Api> → Logger#debug",
			[]string{"gem:Logger#debug", "block in <class:Api>", "gem:Sinatra#call", "Log#call"}},
		{"Log#call → Logger#debug", []string{"gem:Logger#debug", "block in <main>", "gem:Sinatra#call", "Log#call"}},
		// The recording is so old that it has no origins of frames.
		{"Net#get → IO#read", []string{"c:IO#read", "old:Net#get", "old:Shop#show"}},
		{"", nil},
	} {
		dict := sampler.NewDictionary()
		if got := code.Where(dict, internOrigins(dict, c.labels)); got != c.want {
			t.Errorf("%v: %q, want %q", c.labels, got, c.want)
		}
	}
}

// TestBlamedMethodIsTheProgramsOwn: threads spend their time in a library. The finding names the method that is on the
// stack for most of this time. If this is a method of the program itself, the finding also names the library's method
// that it called.
func TestBlamedMethodIsTheProgramsOwn(t *testing.T) {
	for _, c := range []struct {
		want   string
		stacks [][]string
	}{
		{"Shop#show → Numeric#to_s", [][]string{{"gem:Numeric#to_s", "Shop#show"}, {"gem:Numeric#to_s", "c:Array#map", "Shop#show"}}},
		{"Shop#show → Integer#to_s", [][]string{{"c:Integer#to_s", "gem:Numeric#to_s", "Shop#show"}}},
		{"Callbacks#run", [][]string{{"A#a", "gem:Callbacks#run"}, {"B#b", "gem:Callbacks#run"}}},
		{"Shop#show", [][]string{{"gem:A#a", "Shop#show", "gem:Callbacks#run"}, {"gem:B#b", "Shop#show", "gem:Callbacks#run"}}},
	} {
		p, dict := gvltest.ProcOf(sampler.EraSched), sampler.NewDictionary()
		stream := stream.New(p)
		bl := account.NewBlame(stream, dict)
		cl := gvl.NewClassifier(p, dict)
		for i := range 400 {
			th := gvltest.Holder(1)
			th.Stack = internOrigins(dict, c.stacks[i%len(c.stacks)])
			s := gvltest.SampleAt(gvltest.Base+int64(i)*gvltest.MS, 1, th, gvltest.Queued(2))
			stream.Feed(s, cl.Classify(s))
		}
		if got := bl.Method(1, 0); got != c.want {
			t.Errorf("%v: %q, want %q", c.stacks, got, c.want)
		}
	}
}

// TestBlockingPopsRest: a consumer that waits at Redis for its next job is idle. It must not count as a thread that
// waits for a slow Redis. The frames are from the gems redis 4.8 and redis-client 0.22.
func TestBlockingPopsRest(t *testing.T) {
	for _, c := range []struct {
		idle   bool
		labels []string
	}{
		{true, []string{
			"c:IO#wait_readable", "gem:block in Redis::Connection::SocketMixin#_read_from_socket", "c:Kernel#loop",
			"gem:Redis::Connection::SocketMixin#_read_from_socket", "gem:Redis::Connection::SocketMixin#gets",
			"gem:Redis::Connection::Ruby#read", "gem:block in Redis::Client#read", "gem:Redis::Client#io", "gem:Redis::Client#read",
			"gem:block (3 levels) in Redis::Client#call_with_timeout", "gem:Redis::Client#with_socket_timeout",
			"gem:Redis::Commands::Lists#_bpop", "gem:Redis::Commands::Lists#blpop", "Consumer#run",
		}},
		{true, []string{
			"c:IO#wait_readable", "gem:RedisClient::RubyConnection::BufferedIO#fill_buffer", "gem:RedisClient::ConnectionMixin#call",
			"gem:block in RedisClient#blocking_call_v", "gem:RedisClient#ensure_connected", "gem:RedisClient#blocking_call_v", "Consumer#run",
		}},
		{true, []string{"c:IO#wait_readable", "gem:RedisClient::RubyConnection#read", "gem:RedisClient::PubSub#next_event", "Listener#run"}},
		{false, []string{
			"c:IO#wait_readable", "gem:Redis::Connection::SocketMixin#_read_from_socket", "gem:Redis::Client#read",
			"gem:Redis::Client#process", "gem:Redis::Client#call", "gem:Redis::Commands::Strings#get", "Cache#fetch",
		}},
	} {
		dict := sampler.NewDictionary()
		flags := stackkind.New(dict).Of(internOrigins(dict, c.labels))
		if idle := flags&stackkind.Idle != 0; idle != c.idle || flags&stackkind.Redis == 0 {
			t.Errorf("%v: idle %v, in a Redis client %v", c.labels, idle, flags&stackkind.Redis != 0)
		}
	}
}
