package gvl

import (
	"path"
	"strings"

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
	// flagRedis: in a Redis client. flagLog: in a logger. flagRequire: loads code.
	flagRedis
	flagLog
	flagRequire
	// flagRegex: the innermost frame matches a regular expression.
	flagRegex
	// flagServer: a worker of a server's or a job runner's pool.
	flagServer
	// flagGCStart: the program itself asked for the collection.
	flagGCStart
	// flagChild: waits for what a program that it started prints.
	flagChild
	// flagServing: works for a request or a job, by what was read of it (sampler.Serving): no stack says it.
	flagServing
)

// innerFrames is how many of the innermost frames tell what a thread waits for; markers of whole stacks count at any
// depth up to maxClassFrames.
const (
	innerFrames    = 6
	maxClassFrames = 200
	// maxClasses bounds the stacks whose flags are kept; then they are worked out again.
	maxClasses = 1 << 16
)

// marker is a method, or with prefix a group of methods, that gives a stack a flag.
type marker struct {
	label  string
	prefix bool
	flag   stackFlags
	// depth is how many of the innermost frames count; 0: all.
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
	{"Kernel#`", false, flagChild, 1}, {"Open3.", true, flagChild, innerFrames},
}

// timeLimits are the methods that set a time limit, which another thread keeps and ends with an exception.
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

// classifier of stacks: what each frame marks is worked out once, what each stack does is kept.
type stackClasses struct {
	dict   *sampler.Dictionary
	frames map[sampler.FrameID]frameMarks // IDs are never given again: a slice would grow forever
	stacks map[sampler.StackID]stackFlags
}

type frameMarks struct {
	regex bool
	// at holds the flags with the depth up to which each counts.
	at []marker
}

func newStackClasses(dict *sampler.Dictionary) *stackClasses {
	return &stackClasses{dict: dict, frames: make(map[sampler.FrameID]frameMarks), stacks: make(map[sampler.StackID]stackFlags)}
}

// method is a label without what is before the method: "block (2 levels) in Foo#bar" is Foo#bar.
func method(label string) string {
	if strings.HasPrefix(label, "block ") || strings.HasPrefix(label, "rescue in ") || strings.HasPrefix(label, "ensure in ") {
		if i := strings.LastIndex(label, " in "); i >= 0 {
			return label[i+len(" in "):]
		}
	}
	return label
}

func (c *stackClasses) frame(id sampler.FrameID) frameMarks {
	if f, ok := c.frames[id]; ok {
		return f
	}
	var f frameMarks
	label := method(c.dict.Frame(id).Label)
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

// of returns the flags of a stack.
func (c *stackClasses) of(stack sampler.StackID) stackFlags {
	if stack == 0 || c.dict == nil {
		return 0
	}
	if flags, ok := c.stacks[stack]; ok {
		return flags
	}
	var flags stackFlags
	at := stack
	for depth := 0; at != 0 && depth < maxClassFrames; depth++ {
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

// maxLimitFrames bounds the frames that are looked at for a time limit around a deadlock, in all of its threads together.
const maxLimitFrames = 1 << 16

// limited reports whether a stack is within a time limit that another thread keeps, however far out it was set. That matters for
// few stacks, so that whole ones can be gone through. It takes what it looks at from left, and looks at no more.
func (c *stackClasses) limited(stack sampler.StackID, left *int) bool {
	if c.dict == nil {
		return false
	}
	for ; stack != 0 && *left > 0; *left-- {
		caller, id := c.dict.Stack(stack)
		if timeLimits[method(c.dict.Frame(id).Label)] {
			return true
		}
		stack = caller
	}
	return false
}

// maxWhereFrames is how far out a method written in Ruby is looked for.
const maxWhereFrames = 32

// where names the code of a stack for a sentence: "Reports#build → JSON.generate", the innermost method written in Ruby
// and the C function it is in; "" for an unknown stack. Where that method is a library's, the program's own that called it
// stands in its place (ShopController#show → PG::Connection#exec), since it is what a person can change.
func where(dict *sampler.Dictionary, stack sampler.StackID) string {
	if dict == nil || stack == 0 {
		return ""
	}
	var c, ruby string
	for depth := 0; stack != 0 && depth < maxClassFrames; depth++ {
		caller, id := dict.Stack(stack)
		f := dict.Frame(id)
		label := method(f.Label)
		switch {
		case f.C:
			if c == "" && ruby == "" {
				c = label
			}
		case ownMethod(&f, label):
			return ownCode(label, ruby, c)
		case ruby == "" && depth < maxWhereFrames:
			ruby = label
		}
		stack = caller
	}
	return ownCode("", ruby, c)
}

// ownMethod reports whether a frame is a method of the program itself, and not the top of one of its files: a server's
// bin/puma is such a file, too. A recording that says nothing of origins has none.
func ownMethod(f *sampler.Frame, label string) bool {
	return f.Origin != sampler.OriginUnknown && f.Own() && !strings.HasPrefix(label, "<")
}

// ownStack returns the part of a stack that ends with the innermost method of the program itself, or the whole stack if it has none.
func ownStack(dict *sampler.Dictionary, stack sampler.StackID) sampler.StackID {
	own := stack
	for depth := 0; own != 0 && dict != nil && depth < maxClassFrames; depth++ {
		caller, id := dict.Stack(own)
		if f := dict.Frame(id); !f.C && ownMethod(&f, method(f.Label)) {
			return own
		}
		own = caller
	}
	return stack
}

// hasOwn reports whether a method of the program itself is on a stack, or whether that can't be told.
func hasOwn(dict *sampler.Dictionary, stack sampler.StackID) bool {
	for depth := 0; stack != 0 && dict != nil && depth < maxClassFrames; depth++ {
		caller, id := dict.Stack(stack)
		if f := dict.Frame(id); f.Origin == sampler.OriginUnknown || ownMethod(&f, method(f.Label)) {
			return true
		}
		stack = caller
	}
	return false
}

// ownCode joins what names a piece of code: the program's own method, the library's that it called, and the C function that
// one is in; "" where there is none. Two of them are enough for a sentence.
func ownCode(own, library, c string) string {
	outer, inner := own, c
	switch {
	case own == "":
		outer = library
	case library != "" && (c == "" || isPrimitive(c)):
		inner = library
	}
	switch {
	case inner == "":
		return outer
	case outer == "":
		return inner
	}
	return outer + " → " + inner
}

// primitives begin the names of C functions that every library waits in, and that say nothing of what for.
var primitives = []string{
	"IO#", "IO.", "Kernel#", "Thread", "Monitor#", "Process.", "BasicSocket#", "Socket", "TCPSocket", "UNIXSocket",
	"UDPSocket", "OpenSSL::SSL::SSLSocket#",
}

func isPrimitive(c string) bool {
	for _, p := range primitives {
		if strings.HasPrefix(c, p) {
			return true
		}
	}
	return false
}

// line names the place of the innermost frame written in Ruby: "app/models/order.rb:39"; "" when there is none.
func line(dict *sampler.Dictionary, stack sampler.StackID) string {
	if dict == nil {
		return ""
	}
	for range maxWhereFrames {
		if stack == 0 {
			break
		}
		caller, id := dict.Stack(stack)
		if f := dict.Frame(id); !f.C && f.Path != "" {
			return f.Path + ":" + itoa(int64(f.Line))
		}
		stack = caller
	}
	return ""
}

// ownLine names the place of the innermost frame that is the program's own, "order.rb:39", or where there is none of the innermost
// one written in Ruby; "" when there is none.
func ownLine(dict *sampler.Dictionary, stack sampler.StackID) string {
	if dict == nil {
		return ""
	}
	at := ""
	for depth := 0; stack != 0 && depth < maxClassFrames; depth++ {
		caller, id := dict.Stack(stack)
		f := dict.Frame(id)
		switch {
		case f.C || f.Path == "":
		case f.Own():
			return path.Base(f.Path) + ":" + itoa(int64(f.Line))
		case at == "":
			at = path.Base(f.Path) + ":" + itoa(int64(f.Line))
		}
		stack = caller
	}
	return at
}

// rootLine names the place of the outermost frame in its method, " (order.rb:39)"; "" when there is none.
func rootLine(dict *sampler.Dictionary, stack sampler.StackID) string {
	at := ""
	for depth := 0; dict != nil && stack != 0 && depth < maxClassFrames; depth++ {
		caller, id := dict.Stack(stack)
		if f := dict.Frame(id); !f.C && f.Path != "" {
			at = " (" + path.Base(f.Path) + ":" + itoa(int64(f.Line)) + ")"
		}
		stack = caller
	}
	return at
}

// root names the method a thread was started in.
func root(dict *sampler.Dictionary, stack sampler.StackID) string {
	if dict == nil {
		return ""
	}
	label := ""
	for range maxClassFrames {
		if stack == 0 {
			break
		}
		caller, id := dict.Stack(stack)
		label = method(dict.Frame(id).Label)
		stack = caller
	}
	return label
}
