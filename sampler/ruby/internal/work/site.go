package work

import (
	"strings"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
)

// site lists the local variables of one piece of code that can hold a request, a job or a statement.
type site struct {
	// task are the variables that may hold what the thread works on.
	task []candidate
	// env is 1 plus the index of the variable that may hold a Rack environment. It is zero if there is no such
	// variable.
	env int
	// asks are the variables that may hold a statement.
	asks []candidate
	// carrier is true for code of a client library, or of a wrapper around it. The statement may then be in a frame
	// further outward.
	carrier bool
	// pool says which role the method's receiver has in a pool of threads. For example, the receiver can be the pool
	// itself or one of its workers.
	pool poolRole
}

// candidate is a variable whose name suggests that it holds a request, a job (together called tasks) or a statement.
type candidate struct {
	local int // the variable's number, or the constant receiver
	read  func(f *describer, scope *code.Scope, r *reading) (found bool)
	ask   asker
}

// asker reads the statement in the variable at an address. It returns "" if the variable holds none. self is the
// receiver of the method.
type asker func(f *statements, self uint64, at attach.Address) string

// receiver is the value of candidate.local if the candidate is the frame's receiver and not a variable.
const receiver = -1

// taskLocals are the names of variables that hold a thread's request or job, each with the method that reads it.
// Read-only.
var taskLocals = map[string]func(*describer, *code.Scope, *reading) bool{
	"env":      (*describer).readEnv,       // a Rack environment, in the code of any Rack server
	"job_hash": (*describer).readSidekiq,   // a job, in Sidekiq::Processor
	"job_data": (*describer).readActiveJob, // a job, in ActiveJob::Base.execute, for any queue
	"job":      (*describer).readJob,       // a job of Resque, Delayed Job or Que
	"metajob":  (*describer).readJob,       // Que
}

// These gems send statements to databases and other services. wrapperGems are gems whose code can be on the stack
// between such a gem and the system call. Read-only.
var (
	databaseGems = wordSet(`activerecord active_record pg mysql2 trilogy sqlite3 sequel sequel_pg tiny_tds activerecord-sqlserver-adapter
		activerecord-oracle_enhanced-adapter activerecord-trilogy-adapter activerecord-postgis-adapter`)
	redisGems   = wordSet("redis redis-rb redis-client redis_client redis-clustering redis-cluster-client redis-namespace redis-store")
	dalliGems   = wordSet("dalli")
	httpGems    = wordSet("net-http")
	wrapperGems = wordSet(`activesupport active_support connection_pool hiredis hiredis-client net-protocol openssl monitor timeout resolv
		net-http-persistent async async-pool async-io io-event datadog ddtrace newrelic_rpm sentry-ruby sentry-ruby-core sentry-rails elastic-apm
		skylight scout_apm appsignal rack-mini-profiler`)
	// wrapperFiles are files of the standard library whose code has the role of a wrapper, like the code of
	// wrapperGems. Read-only.
	wrapperFiles = []string{"/net/protocol.rb", "/openssl/", "/monitor.rb", "/timeout.rb", "/socket.rb", "/resolv"}
)

// role is what a piece of code is for when a thread sends a statement or command to a server.
type role uint8

const (
	roleOther role = iota
	roleDatabase
	roleRedis
	roleDalli
	roleHTTP
	roleWrapper
)

// roleOf returns the role of a piece of code. It depends on the code's origin, gem and path.
func roleOf(origin sampler.Origin, gem, path string) role {
	switch {
	case origin == sampler.OriginCore:
		return roleWrapper
	case origin == sampler.OriginStdlib:
		if strings.HasSuffix(path, "/net/http.rb") || strings.Contains(path, "/net/http/") {
			return roleHTTP
		}
		for _, part := range wrapperFiles {
			if strings.Contains(path, part) {
				return roleWrapper
			}
		}
		return roleOther
	// Rails' log_subscriber can hold variables of an earlier request. So its code does not get the role of a client
	// library.
	case origin != sampler.OriginGem, strings.Contains(path, "log_subscriber"):
		return roleOther
	case gem == "rails": // Rails is installed from git, so all of its gems are in one folder
		if strings.Contains(path, "/activerecord/") {
			return roleDatabase
		} else if strings.Contains(path, "/activesupport/") {
			return roleWrapper
		}
	case databaseGems[gem]:
		return roleDatabase
	case redisGems[gem]:
		return roleRedis
	case dalliGems[gem]:
		return roleDalli
	case httpGems[gem], gem == "net" && strings.Contains(path, "/net/http"):
		return roleHTTP
	case wrapperGems[gem], strings.HasPrefix(gem, "opentelemetry-"):
		return roleWrapper
	}
	return roleOther
}

func (f *statements) site(scope *code.Scope) *site {
	s := f.sites[scope.Locals]
	if s == nil {
		if len(f.sites) >= maxSites {
			clear(f.sites)
		}
		s = f.newSite(scope)
		f.sites[scope.Locals] = s
	}
	return s
}

func (f *statements) newSite(scope *code.Scope) *site {
	s := &site{}
	name, path, ok := f.code.Known(scope.ISeq)
	if !ok {
		return s
	}
	origin, gem := f.code.Library(scope.ISeq)
	role := roleOf(origin, gem, path)
	s.carrier, s.pool = role != roleOther, poolRoleOf(path)
	if name == "perform_now" && strings.Contains(path, "/active_job/") {
		s.task = append(s.task, candidate{local: receiver, read: (*describer).readPerforming})
	}
	for i, local := range scope.Locals.Names() {
		if local == "env" {
			s.env = i + 1
		}
		if read := taskLocals[local]; read != nil {
			s.task = append(s.task, candidate{local: i, read: read})
		}
		if ask := askerOf(role, name, path, local); ask != nil {
			s.asks = append(s.asks, candidate{local: i, ask: ask})
		}
	}
	return s
}

// askerOf returns the function that reads a statement from a variable of a client library's method. It returns nil if
// the variable holds no statement. It also returns nil if the method only builds the statement and does not send it.
func askerOf(r role, method, path, local string) asker {
	switch {
	case r == roleDatabase && local == "sql" && !buildsSQL(method, path):
		return (*statements).askSQL
	case r == roleRedis && performsCommands(path):
		switch {
		// in the methods write and process, the variable holds one of several commands
		case local == "command" && method != "write" && method != "process":
			return (*statements).askCommand
		case local == "commands":
			return (*statements).askCommands
		}
	case r == roleDalli && (local == "opkey" || local == "opcode") && method == "request", r == roleDalli && local == "op" && method == "perform":
		return (*statements).askCache
	case r == roleHTTP && local == "req" && (method == "transport_request" || method == "begin_transport" || method == "request"):
		return (*statements).askHTTP
	}
	return nil
}

// buildsSQL reports whether a method of a database's client library builds a statement and does not send it.
func buildsSQL(method, path string) bool {
	if strings.Contains(path, "/sequel/") {
		return !sequelAsks[method]
	}
	return strings.HasSuffix(method, "_sql") || strings.HasPrefix(method, "build_") || strings.HasPrefix(method, "visit_") || strings.HasPrefix(method, "sanitize_")
}

// sequelAsks are the methods of Sequel's adapters that send a statement. Read-only.
var sequelAsks = wordSet(`_execute execute execute_ddl execute_dui execute_insert execute_query exec_query fetch_rows log_connection_yield
	log_yield query run`)

// performsCommands reports whether the code in a file of a Redis client sends commands to Redis. Code in other files
// only builds or queues commands.
func performsCommands(path string) bool {
	return strings.HasSuffix(path, "/redis/client.rb") || strings.Contains(path, "/redis_client/") && strings.Contains(path, "connection")
}
