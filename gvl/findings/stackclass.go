package findings

import (
	"strings"

	"github.com/ddtop/ddtop/gvl/code"
	"github.com/ddtop/ddtop/sampler"
)

// stackFlags say what kind of work a stack is, by the methods in it.
type stackFlags uint16

const (
	// flagIdle: waits for work: a pool's worker without a job, a server's select loop, a poller.
	flagIdle stackFlags = 1 << iota
	// flagPool: waits for a connection of a connection pool.
	flagPool
	// flagDB: in a database adapter.
	flagDB
	// flagRedis is for a Redis client, flagLog for a logger, flagRequire for loading code.
	flagRedis
	flagLog
	flagRequire
	// flagRegex: the innermost frame matches a regular expression.
	flagRegex
	// flagServer: a worker of a server's or a job runner's pool.
	flagServer
	// flagGCStart: the program itself asked for the collection.
	flagGCStart
	// flagChild is for waiting for the output of a program that it started.
	flagChild
	// flagEnding is for a server or job runner that has been told to end, and waits for its work to end.
	flagEnding
	// flagServing is for working on a request or a job, by the work that was read (sampler.Serving). No stack shows
	// it.
	flagServing
)

const (
	// innerFrames is the number of innermost frames that show what a thread waits for. Markers of whole stacks count
	// at any depth up to maxClassFrames.
	innerFrames = 6
	// maxClasses bounds the stacks whose flags are kept.
	maxClasses = 1 << 16
)

// marker is a method, or with prefix a group of methods, that gives a stack a flag.
type marker struct {
	label  string
	prefix bool
	flag   stackFlags
	// depth is how many of the innermost frames count. Zero means all, up to code.MaxFrames.
	depth int
}

// markers are the methods by which stacks are distinguished. The labels are Ruby 3.4's, without "block in".
var markers = []marker{
	{"Puma::ThreadPool#spawn_thread", false, flagServer, 0}, {"Puma::ThreadPool#worker", false, flagServer, 0},
	{"Sidekiq::Processor#run", false, flagServer, 0}, {"GoodJob::Scheduler", true, flagServer, 0},
	{"SolidQueue::Pool", true, flagServer, 0},
	{"Puma::ThreadPool#spawn_thread", false, flagIdle, 4}, {"Puma::Reactor#select_loop", false, flagIdle, 4},
	{"Puma::Server#handle_servers", false, flagIdle, 4}, {"Puma::Single#run", false, flagIdle, innerFrames},
	{"Puma::Cluster", true, flagIdle, innerFrames}, {"Sidekiq::BasicFetch#retrieve_work", false, flagIdle, 60},
	{"Sidekiq::Scheduled::Poller", true, flagIdle, 10}, {"Timeout.create_timeout_thread", false, flagIdle, innerFrames},
	{"Timeout::Request", true, flagIdle, innerFrames}, {"PG::Connection#wait_for_notify", false, flagIdle, 4},
	{"Redis::SubscribedClient", true, flagIdle, 20}, {"Redis#subscribe", false, flagIdle, 20},
	// Blocking pops: of redis-client and redis 5, of redis 3 and 4.
	{"RedisClient#blocking_call", true, flagIdle, 20}, {"RedisClient::PubSub", true, flagIdle, 20},
	{"Redis::Client#call_with_timeout", false, flagIdle, 20}, {"Listen::", true, flagIdle, 10},
	{"WEBrick::GenericServer#start", false, flagIdle, innerFrames},
	// Waits for a client's next request on a connection that is kept: Puma 4 to 6 (client.rb), WEBrick (httprequest.rb).
	{"Puma::Client#reset", false, flagIdle, 2}, {"WEBrick::HTTPRequest#read_request_line", false, flagIdle, 12},
	// Main threads that wait for a signal, and event loops of fibers. A fiber that is served has a stack of its own.
	{"Sidekiq::CLI#launch", false, flagIdle, 4}, {"GoodJob::CLI#start", false, flagIdle, 4},
	{"Unicorn::HttpServer#master_sleep", false, flagIdle, 4},
	{"Async::Reactor#run_once", true, flagIdle, 4}, {"Async::Scheduler#run_once", true, flagIdle, 4},
	// Readers and pollers of message brokers, of a replica set's state, of a mailbox.
	{"Bunny::ReaderLoop", true, flagIdle, 20}, {"Kafka::Fetcher", true, flagIdle, 40}, {"NATS::IO::Client#read_loop", false, flagIdle, 20},
	{"Aws::SQS::Client#receive_message", false, flagIdle, 100}, {"Net::IMAP#receive_responses", false, flagIdle, 20},
	{"Mongo::Server::Monitor", true, flagIdle, 60}, {"Mongo::Server::PushMonitor", true, flagIdle, 60},
	{"ActiveRecord::ConnectionAdapters::ConnectionPool::Queue#wait_poll", false, flagPool, 12},
	{"ActiveRecord::ConnectionAdapters::ConnectionPool::Queue#poll", false, flagPool, 12},
	// Not TimedStack#pop, which Sidekiq's scheduler sleeps in.
	{"ConnectionPool#checkout", false, flagPool, 12}, {"Sequel::ThreadedConnectionPool", true, flagPool, 12},
	{"Sequel::TimedQueueConnectionPool", true, flagPool, 12},
	{"PG::", true, flagDB, 12}, {"Mysql2::", true, flagDB, 12}, {"Trilogy", true, flagDB, 12},
	{"SQLite3::", true, flagDB, 12}, {"Mongo::", true, flagDB, 20}, {"TinyTds::", true, flagDB, 12},
	{"ActiveRecord::ConnectionAdapters::", true, flagDB, 20}, {"Sequel::", true, flagDB, 20},
	{"DB#", true, flagDB, innerFrames}, {"DB.", true, flagDB, innerFrames},
	{"RedisClient", true, flagRedis, 12}, {"Redis::", true, flagRedis, 12}, {"Redis#", true, flagRedis, 12},
	{"Logger::LogDevice#write", false, flagLog, 12}, {"Logger#", true, flagLog, 12},
	{"Kernel#require", false, flagRequire, 8}, {"Kernel#require_relative", false, flagRequire, 8},
	{"Module#autoload", false, flagRequire, 8},
	{"GC.start", false, flagGCStart, 4},
	{"Puma::Server#graceful_shutdown", false, flagEnding, 0}, {"Puma::ThreadPool#shutdown", false, flagEnding, 0},
	{"Puma::Single#stop_blocked", false, flagEnding, 0}, {"Puma::Cluster#stop_workers", false, flagEnding, 0},
	{"Unicorn::HttpServer#stop", false, flagEnding, 0}, {"Sidekiq::Launcher#stop", false, flagEnding, 0},
	{"Sidekiq::Manager#stop", false, flagEnding, 0}, {"GoodJob.shutdown", false, flagEnding, 0},
	{"Shoryuken::Launcher#stop", false, flagEnding, 0}, {"Karafka::Server.stop", false, flagEnding, 0},
	{"Kernel#`", false, flagChild, 1}, {"Open3.", true, flagChild, innerFrames},
}

// timeLimits are the methods that set a time limit, which another thread ends with an exception.
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

// stackClasses classifies stacks. It remembers the marks of frames and the flags of stacks.
type stackClasses struct {
	dict   *sampler.Dictionary
	frames map[sampler.FrameID]frameMarks // not a slice, because IDs are never reused and it would grow forever
	stacks map[sampler.StackID]stackFlags
}

type frameMarks struct {
	regex bool
	at    []marker
}

func newStackClasses(dict *sampler.Dictionary) *stackClasses {
	return &stackClasses{dict: dict, frames: make(map[sampler.FrameID]frameMarks), stacks: make(map[sampler.StackID]stackFlags)}
}

func (c *stackClasses) frame(id sampler.FrameID) frameMarks {
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
	if len(c.frames) >= maxClasses {
		clear(c.frames)
	}
	c.frames[id] = f
	return f
}

// flagsOf returns the flags of a stack.
func (c *stackClasses) flagsOf(stack sampler.StackID) stackFlags {
	if stack == 0 || c.dict == nil {
		return 0
	}
	if flags, ok := c.stacks[stack]; ok {
		return flags
	}
	var flags stackFlags
	at := stack
	for depth := 0; at != 0 && depth < code.MaxFrames; depth++ {
		caller, id := c.dict.Stack(at)
		f := c.frame(id)
		if depth == 0 && f.regex {
			flags |= flagRegex
		}
		for _, m := range f.at {
			if m.depth == 0 || depth < m.depth {
				flags |= m.flag
			}
		}
		at = caller
	}
	if len(c.stacks) >= maxClasses {
		clear(c.stacks)
	}
	c.stacks[stack] = flags
	return flags
}

// maxLimitFrames bounds the frames that are searched for a time limit around a deadlock, in all of its threads
// together.
const maxLimitFrames = 1 << 16

// limited reports whether a stack is within a time limit that another thread keeps, however far out. It searches at
// most left frames, and lowers left.
func (c *stackClasses) limited(stack sampler.StackID, left *int) bool {
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
