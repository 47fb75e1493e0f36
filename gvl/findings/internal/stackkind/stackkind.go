// Package stackkind finds out what kind of work a thread does, by the methods on its stack.
package stackkind

import (
	"strings"

	"github.com/ddtop/ddtop/gvl/code"
	"github.com/ddtop/ddtop/sampler"
)

// Flags say what kind of work a thread does, by the methods on its stack.
type Flags uint32

const (
	// Idle is for a thread that waits for work: a pool's worker without a job, a server's select loop, a poller.
	Idle Flags = 1 << iota
	// Pool is for a thread that waits for a connection of a connection pool.
	Pool
	// DB is for code of a database adapter.
	DB
	// Redis is for code of a Redis client, Log for code of a logger, and Require for code that loads files.
	Redis
	Log
	Require
	// Regex is set if Ruby matches a regular expression in the innermost frame.
	Regex
	// Server is for a worker thread in the pool of a server or a job runner.
	Server
	// GCStart is for a garbage collection that the program itself requested (GC.start).
	GCStart
	// Child is for a thread that waits for the output of a program that it started.
	Child
	// Ending is for a server or job runner that was told to end, and now waits until its requests or jobs have ended.
	Ending
	// Connect is for a thread that waits until a connection is established. Some methods pass the established
	// connection to a block. While this block runs, Connect is not set, because the block does other work.
	Connect
	// Fork is set if the innermost frame is a call of fork.
	Fork
	// Boot is for a server's worker process that runs a hook at its start.
	Boot
	// Accepts is for a server's loop that waits for connections. It is set together with Idle.
	Accepts
	// Serving is set for a thread that works on a request or a job. This comes from sampler.Serving, and not from a
	// method on the stack.
	Serving
)

// With adds the flag Serving if the thread works on a request or a job.
func (f Flags) With(work sampler.WorkID) Flags {
	if work != 0 {
		f |= Serving
	}
	return f
}

// Serves reports whether a thread is in the middle of a request or a job: its request or job is known, or it is a
// worker of a server's pool that is not idle.
func (f Flags) Serves() bool { return f&(Server|Serving) != 0 && f&Idle == 0 }

const (
	// innerFrames is how many of the innermost frames are searched for the method of some markers. (A marker is a
	// method that gives a stack a flag.) These frames show what a thread waits for. Markers with depth 0 are searched
	// in the whole stack, up to code.MaxFrames.
	innerFrames = 6
	// MaxClasses limits how many stacks' flags are kept.
	MaxClasses = 1 << 16
)

// marker gives a stack a flag if a method is on the stack. label is the method's label, or only its beginning if prefix
// is true.
type marker struct {
	label  string
	prefix bool
	flag   Flags
	// depth is how many of the innermost frames are searched for the method. Zero means all, up to code.MaxFrames.
	depth int
}

// markers has the methods that decide a stack's flags. The labels are as in Ruby 3.4, without "block in".
var markers = []marker{
	{"Puma::ThreadPool#spawn_thread", false, Server, 0}, {"Puma::ThreadPool#worker", false, Server, 0},
	{"Sidekiq::Processor#run", false, Server, 0}, {"GoodJob::Scheduler", true, Server, 0},
	{"SolidQueue::Pool", true, Server, 0},
	{"Puma::ThreadPool#spawn_thread", false, Idle, 4}, {"Puma::Reactor#select_loop", false, Idle, 4},
	{"Puma::Server#handle_servers", false, Idle | Accepts, 4}, {"Puma::Single#run", false, Idle, innerFrames},
	{"Puma::Cluster", true, Idle, innerFrames}, {"Sidekiq::BasicFetch#retrieve_work", false, Idle, 60},
	{"Sidekiq::Scheduled::Poller", true, Idle, 10}, {"Timeout.create_timeout_thread", false, Idle, innerFrames},
	{"Timeout::Request", true, Idle, innerFrames}, {"PG::Connection#wait_for_notify", false, Idle, 4},
	{"Redis::SubscribedClient", true, Idle, 20}, {"Redis#subscribe", false, Idle, 20},
	// The first three of these entries are for calls that wait in Redis. RedisClient#blocking_call (redis-client, redis
	// 5) and Redis::Client#call_with_timeout (redis 3 and 4) usually wait until a list has an item. RedisClient::PubSub
	// waits for messages of channels to which the program has subscribed.
	{"RedisClient#blocking_call", true, Idle, 20}, {"RedisClient::PubSub", true, Idle, 20},
	{"Redis::Client#call_with_timeout", false, Idle, 20}, {"Listen::", true, Idle, 10},
	{"WEBrick::GenericServer#start", false, Idle | Accepts, innerFrames},
	// These methods wait for a client's next request on a kept connection: Puma 4 to 6 (client.rb), WEBrick
	// (httprequest.rb).
	{"Puma::Client#reset", false, Idle, 2}, {"WEBrick::HTTPRequest#read_request_line", false, Idle, 12},
	// These are main threads that wait for a signal, and event loops of fibers. A fiber has its own stack, which does
	// not have the loop's method. So a fiber that runs is not idle.
	{"Sidekiq::CLI#launch", false, Idle, 4}, {"GoodJob::CLI#start", false, Idle, 4},
	{"Unicorn::HttpServer#master_sleep", false, Idle, 4},
	{"Async::Reactor#run_once", true, Idle, 4}, {"Async::Scheduler#run_once", true, Idle, 4},
	// These methods read or poll message brokers, the state of a replica set, or a mailbox.
	{"Bunny::ReaderLoop", true, Idle, 20}, {"Kafka::Fetcher", true, Idle, 40}, {"NATS::IO::Client#read_loop", false, Idle, 20},
	{"Aws::SQS::Client#receive_message", false, Idle, 100}, {"Net::IMAP#receive_responses", false, Idle, 20},
	{"Mongo::Server::Monitor", true, Idle, 60}, {"Mongo::Server::PushMonitor", true, Idle, 60},
	{"ActiveRecord::ConnectionAdapters::ConnectionPool::Queue#wait_poll", false, Pool, 12},
	{"ActiveRecord::ConnectionAdapters::ConnectionPool::Queue#poll", false, Pool, 12},
	// These methods wait for a connection of a pool. TimedStack#pop is not in this list, because Sidekiq's scheduler
	// sleeps in it.
	{"ConnectionPool#checkout", false, Pool, 12}, {"Sequel::ThreadedConnectionPool", true, Pool, 12},
	{"Sequel::TimedQueueConnectionPool", true, Pool, 12},
	{"PG::", true, DB, 12}, {"Mysql2::", true, DB, 12}, {"Trilogy", true, DB, 12},
	{"SQLite3::", true, DB, 12}, {"Mongo::", true, DB, 20}, {"TinyTds::", true, DB, 12},
	{"ActiveRecord::ConnectionAdapters::", true, DB, 20}, {"Sequel::", true, DB, 20},
	{"DB#", true, DB, innerFrames}, {"DB.", true, DB, innerFrames},
	{"RedisClient", true, Redis, 12}, {"Redis::", true, Redis, 12}, {"Redis#", true, Redis, 12},
	{"Logger::LogDevice#write", false, Log, 12}, {"Logger#", true, Log, 12},
	{"Kernel#require", false, Require, 8}, {"Kernel#require_relative", false, Require, 8},
	{"Module#autoload", false, Require, 8},
	{"GC.start", false, GCStart, 4},
	{"Addrinfo#connect_internal", false, Connect, 2}, {"PG::Connection::Pollable", true, Connect, 4},
	{"Puma::Server#graceful_shutdown", false, Ending, 0}, {"Puma::ThreadPool#shutdown", false, Ending, 0},
	{"Puma::Single#stop_blocked", false, Ending, 0}, {"Puma::Cluster#stop_workers", false, Ending, 0},
	{"Unicorn::HttpServer#stop", false, Ending, 0}, {"Sidekiq::Launcher#stop", false, Ending, 0},
	{"Sidekiq::Manager#stop", false, Ending, 0}, {"GoodJob.shutdown", false, Ending, 0},
	{"Shoryuken::Launcher#stop", false, Ending, 0}, {"Karafka::Server.stop", false, Ending, 0},
	{"Kernel#fork", false, Fork, 1}, {"Process.fork", false, Fork, 1}, {"Process._fork", false, Fork, 1},
	// Puma calls run_hooks at a worker's start, and also at its end, with other hooks. So this marker alone does not
	// prove that the worker is starting.
	{"Puma::Configuration#run_hooks", false, Boot, 0}, {"Unicorn::HttpServer#init_worker_process", false, Boot, 0},
	{"Kernel#`", false, Child, 1}, {"Open3.", true, Child, innerFrames},
}

// timeLimits are methods that run code with a time limit. When the limit is reached, another thread ends the code by an
// exception.
var timeLimits = map[string]bool{"Timeout.timeout": true, "Timeout#timeout": true, "Rack::Timeout#call": true}

// regexLabels are the C functions that match regular expressions.
var regexLabels = map[string]bool{
	"Regexp#match": true, "Regexp#match?": true, "Regexp#=~": true, "Regexp#===": true, "String#=~": true,
	"String#match": true, "String#match?": true, "String#gsub": true, "String#gsub!": true, "String#sub": true,
	"String#sub!": true, "String#scan": true, "String#split": true, "String#index": true, "String#rindex": true,
	"String#[]": true, "String#slice": true, "String#slice!": true, "String#partition": true, "String#rpartition": true,
	"String#start_with?": true, "Symbol#=~": true, "Symbol#match?": true, "StringScanner#scan": true,
	"StringScanner#scan_until": true, "StringScanner#match?": true,
}

// Classes finds the flags of stacks. It remembers which markers each frame matches, and the flags of each stack.
type Classes struct {
	dict   *sampler.Dictionary
	frames map[sampler.FrameID]frameMarks // a map, because IDs are never reused, so a slice would grow forever
	stacks map[sampler.StackID]Flags
}

type frameMarks struct {
	regex bool
	at    []marker
}

func New(dict *sampler.Dictionary) *Classes {
	return &Classes{dict: dict, frames: make(map[sampler.FrameID]frameMarks), stacks: make(map[sampler.StackID]Flags)}
}

func (c *Classes) frame(id sampler.FrameID) frameMarks {
	if f, ok := c.frames[id]; ok {
		return f
	}
	var f frameMarks
	label := code.Method(c.dict.Frame(id).Label)
	f.regex = regexLabels[label]
	for _, m := range markers {
		if label == m.label || m.prefix && strings.HasPrefix(label, m.label) {
			f.at = append(f.at, m)
		}
	}
	if len(c.frames) >= MaxClasses {
		clear(c.frames)
	}
	c.frames[id] = f
	return f
}

// Of returns the flags of a stack.
func (c *Classes) Of(stack sampler.StackID) Flags {
	if stack == 0 || c.dict == nil {
		return 0
	}
	if flags, ok := c.stacks[stack]; ok {
		return flags
	}
	var flags Flags
	at := stack
	for depth := 0; at != 0 && depth < code.MaxFrames; depth++ {
		caller, id := c.dict.Stack(at)
		f := c.frame(id)
		if depth == 0 && f.regex {
			flags |= Regex
		}
		for _, m := range f.at {
			if m.depth == 0 || depth < m.depth {
				flags |= m.flag
			}
		}
		at = caller
	}
	if len(c.stacks) >= MaxClasses {
		clear(c.stacks)
	}
	c.stacks[stack] = flags
	return flags
}

// MaxLimitFrames limits the search for a time limit (Timeout) around the threads of a deadlock. It is the number of
// frames that are searched in all these threads together.
const MaxLimitFrames = 1 << 16

// Limited reports whether code of a stack, at any depth, runs with a time limit (Timeout) that another thread watches.
// It searches at most *left frames, and subtracts the number of searched frames from *left.
func (c *Classes) Limited(stack sampler.StackID, left *int) bool {
	if c.dict == nil {
		return false
	}
	for ; stack != 0 && *left > 0; *left-- {
		caller, id := c.dict.Stack(stack)
		if timeLimits[code.Method(c.dict.Frame(id).Label)] {
			return true
		}
		stack = caller
	}
	return false
}
