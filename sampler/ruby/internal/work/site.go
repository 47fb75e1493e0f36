package work

import (
	"strings"

	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
)

// site is what a piece of code can say.
type site struct {
	// task are the variables that may hold what the thread works on.
	task []candidate
	// asks are the variables that may hold what it asks.
	asks []candidate
	// carrier: it is code of a client, or of what clients are wrapped in: what it asks may be said further out.
	carrier bool
}

// candidate is a variable by whose name it may say something.
type candidate struct {
	local int
	read  func(f *Finder, scope *code.Scope, r *reading) (found bool, err error)
	ask   func(f *Finder, scope *code.Scope, local int) (text string, found bool, err error)
}

// taskLocals are the names of variables that hold what a thread works on. Read-only.
var taskLocals = map[string]func(*Finder, *code.Scope, *reading) (bool, error){
	"env":      (*Finder).readEnv,       // any Rack server
	"job_hash": (*Finder).readSidekiq,   // Sidekiq::Processor
	"job_data": (*Finder).readActiveJob, // ActiveJob::Base.execute, whatever the queue
	"job":      (*Finder).readJob,       // Resque, Delayed Job, Que
	"metajob":  (*Finder).readJob,       // Que
}

// clients are parts of the paths of code that asks for others, with what holds what it asks. wrappers are those of code between it and
// the system. Read-only.
var (
	databases = []string{"/active_record/", "/activerecord-", "/lib/pg/", "/lib/pg.rb", "/mysql2", "/trilogy", "/sqlite3", "/sequel", "/tiny_tds", "/oracle_enhanced"}
	redises   = []string{"/redis"}
	https     = []string{"/net/http.rb", "/net/http/"}
	wrappers  = []string{"<internal:", "/active_support/", "/activesupport-", "/net/protocol.rb", "/openssl/", "/monitor.rb", "/timeout.rb",
		"/socket.rb", "/resolv", "/connection_pool", "/hiredis", "/opentelemetry", "/datadog", "/ddtrace", "/new_relic", "/sentry"}
	// others are none: their variables of these names are what was asked before.
	others = []string{"log_subscriber", "/sidekiq", "/resque"}
)

func within(path string, parts []string) bool {
	for _, part := range parts {
		if strings.Contains(path, part) {
			return true
		}
	}
	return false
}

// site returns what is known of a scope's code.
func (f *Finder) site(scope *code.Scope) *site {
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

func (f *Finder) newSite(scope *code.Scope) *site {
	s := &site{}
	name, path, ok := f.code.Known(scope.ISeq)
	if !ok {
		return s
	}
	none := within(path, others)
	database, redis, http := !none && within(path, databases), !none && within(path, redises), !none && within(path, https)
	s.carrier = database || redis || http || !none && within(path, wrappers)
	for i, local := range scope.Locals.Names() {
		if read := taskLocals[local]; read != nil {
			s.task = append(s.task, candidate{local: i, read: read})
		}
		switch {
		case database && local == "sql":
			s.asks = append(s.asks, candidate{local: i, ask: (*Finder).askSQL})
		case redis && local == "command":
			s.asks = append(s.asks, candidate{local: i, ask: (*Finder).askCommand})
		case redis && local == "commands":
			s.asks = append(s.asks, candidate{local: i, ask: (*Finder).askCommands})
		case http && local == "req" && (name == "transport_request" || name == "begin_transport" || name == "request"):
			s.asks = append(s.asks, candidate{local: i, ask: (*Finder).askHTTP})
		}
	}
	return s
}
