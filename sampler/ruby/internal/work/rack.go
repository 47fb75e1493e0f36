package work

import (
	"cmp"
	"hash/fnv"
	"strings"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
)

// maxText limits the length of each text that is read from a request or a job, in bytes.
const maxText = 1024

// These constants number the keys of a Rack environment (a Hash with the data of a request).
const (
	envMethod = iota
	envPath
	envScript
	envQuery
	envParameters
	envSinatra
	envPattern
	envGrape
	envStart
	envQueue
	envURI
	envRequestPath
	envHost
	envAgent
	envOriginalPath
	envOriginalMethod
	envKeys
)

// envNames are the keys of a request's Rack environment that ddtop reads. Read-only.
var envNames = [envKeys]string{"REQUEST_METHOD", "PATH_INFO", "SCRIPT_NAME", "QUERY_STRING", "action_dispatch.request.path_parameters",
	"sinatra.route", "action_dispatch.route_uri_pattern", "grape.routing_args", "HTTP_X_REQUEST_START", "HTTP_X_QUEUE_START",
	"REQUEST_URI", "REQUEST_PATH", "HTTP_HOST", "HTTP_USER_AGENT",
	"action_dispatch.original_path", "action_dispatch.original_request_method"}

// envIdentity are the keys of a Rack environment whose values do not change during a request, so that they identify the
// request. Read-only.
var envIdentity = [identityText]int{envURI, envRequestPath, envQuery, envHost, envAgent, envStart}

// envWanted are the keys of a Rack environment whose values ddtop reads. The list is needed to fetch all values at
// once. Read-only.
var envWanted = [...]int{envMethod, envPath, envScript, envQuery, envParameters, envSinatra, envPattern, envGrape, envStart, envQueue,
	envURI, envOriginalPath, envOriginalMethod}

// parameterNames are the keys of Rails' path parameters whose values make up a route. Read-only.
var parameterNames = []string{"controller", "action"}

// readEnv reads the Rack environment of a request. The Rack specification says that it is a Hash, and that the method
// and the path are Strings.
func (f *describer) readEnv(scope *code.Scope, r *reading) bool {
	var values [envKeys]uint64
	if !f.lookUpVariable(r, envNames[:], values[:]) || values[envMethod] == 0 || values[envPath] == 0 {
		return false
	}
	for _, i := range envWanted {
		f.objects.Want(values[i])
	}
	if !f.is(values[envMethod], heap.TypeString) || !f.is(values[envPath], heap.TypeString) {
		return false
	}
	r.kind = sampler.WorkRequest
	known := false
	for i, key := range envIdentity {
		r.identity[i] = values[key]
		known = known || f.objects.IsObject(values[key])
	}
	// If the time between two samples is long, the objects of the next request can have the same addresses as the last
	// request's objects. The text of the URI distinguishes the two requests. So read the text again, too.
	r.identity[identityText] = f.identityOf(values[envURI])
	var texts [envKeys]string
	f.quietly(func() {
		wanted := []int{envMethod, envPath, envScript, envSinatra, envPattern, envStart, envQueue,
			envOriginalPath, envOriginalMethod}
		if f.values {
			wanted = append(wanted, envQuery)
		}
		for _, i := range wanted {
			texts[i] = f.text(values[i], maxText)
		}
	})
	status := exceptionStatus(&texts)
	r.least.path = values[envPath]
	if !known { // the environment has none of the usual identifying values
		r.identity = [identityWords]uint64{}
		r.least.script, r.least.whole = sum(texts[envScript]), sum(texts[envScript]+texts[envPath])
	}
	env := f.envOf(&values, &texts)
	if f.failed != nil {
		return false
	}
	r.proof = requestProof{values[envURI], values[envMethod], values[envPath], sum(env.Script + env.Path)}
	method, rest, guessed := route(&env)
	r.endpoint = f.endpointOf(r, method, rest, guessed)
	r.guess, r.failed = join(method, f.paths.fold(Pattern(env.Script+env.Path))), status != ""
	if guessed && r.failed {
		r.endpoint = status + " " + r.guess
	}
	for _, i := range []int{envStart, envQueue} {
		if r.queuedNS == 0 && texts[i] != "" {
			r.queuedNS = Queued(texts[i], f.wall())
		}
	}
	if f.values {
		r.values = env.Script + env.Path
		if env.Query != "" {
			r.values += "?" + env.Query
		}
	}
	return true
}

// exceptionStatus returns an HTTP status if Rails is rendering an error page, and "" otherwise. Rails renders error
// pages with an exceptions application, and the path of its request is the status (ActionDispatch::ShowExceptions,
// since Rails 4). exceptionStatus then replaces the path and method in texts with the original path and method of the
// request.
func exceptionStatus(texts *[envKeys]string) string {
	if texts[envOriginalPath] == "" {
		return ""
	}
	status, _, _ := strings.Cut(strings.TrimPrefix(texts[envPath], "/"), ".")
	texts[envPath], texts[envMethod] = texts[envOriginalPath], cmp.Or(texts[envOriginalMethod], texts[envMethod])
	if !sampler.IsStatus(status) {
		return ""
	}
	return status
}

// envOf returns the values of a Rack environment that can name a route. texts has the texts of the values that are
// Strings.
func (f *describer) envOf(values *[envKeys]uint64, texts *[envKeys]string) Env {
	env := Env{Method: texts[envMethod], Path: texts[envPath], Script: texts[envScript], Query: texts[envQuery],
		SinatraRoute: texts[envSinatra], RoutePattern: texts[envPattern]}
	f.quietly(func() {
		var of [2]uint64
		if v := values[envParameters]; v != 0 && f.lookUp(v, parameterNames, of[:]) {
			env.Controller, env.Action = f.text(of[0], maxText), f.text(of[1], maxText)
		}
		if v := values[envGrape]; v != 0 && env.RoutePattern == "" {
			env.RoutePattern = f.grapeRoute(v)
		}
	})
	return env
}

// endpointOf returns the name of a route. guessed is true if the parameter rest is only the pattern of the request's
// path. In this case endpointOf stores rest in r.path, so that f.paths can learn from it. In the name, ":id" then
// replaces the parts that are known to be values.
func (f *describer) endpointOf(r *reading, method, rest string, guessed bool) string {
	if guessed {
		r.path = rest
		rest = f.paths.fold(rest)
	}
	return join(method, rest)
}

// grapeRoute returns the pattern of the route that Grape has found. v is the Hash that Grape puts into the
// environment.
func (f *describer) grapeRoute(v uint64) string {
	var route [1]uint64
	f.lookUp(v, []string{"route_info"}, route[:])
	for _, name := range []string{"@pattern", "@origin"} {
		if !f.is(route[0], heap.TypeObject) {
			return ""
		}
		route[0] = f.ivar(route[0], name)
	}
	return f.text(route[0], maxText)
}

// maxIdentityText limits how much of a text identityOf reads, in bytes. This much is enough to distinguish requests and
// jobs.
const maxIdentityText = 256

// identityOf returns a checksum of a text, to distinguish requests and jobs. It is zero if there is no text.
func (f *describer) identityOf(v uint64) uint64 {
	s := f.text(v, maxIdentityText)
	if s == "" {
		return 0
	}
	return sum(s)
}

// sum returns a checksum of a text. It is never 0.
func sum(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return h.Sum64() | 1
}

// lookedUp is the result of a search in a Hash, and the memory from which it was read. It is valid only within one try
// of the method settled, because the next try reads the memory again.
type lookedUp struct {
	try    uint64 // the value of reader.tries at the search
	slot   attach.Address
	names  *string // the first of the names that were looked up
	hash   uint64
	values [envKeys]uint64
	notes  []heap.Witness
}

// lookUpVariable does the same as lookUp for the Hash in the variable of r. It stores the address of the Hash in r.key,
// and caches the result in f.pairs.
func (f *reader) lookUpVariable(r *reading, names []string, values []uint64) bool {
	done := &f.pairs
	if done.try == f.tries && done.slot == r.slot && done.names == &names[0] {
		r.key.hash = done.hash
		copy(values, done.values[:])
		f.notes = append(f.notes[:0], done.notes...)
		return true
	}
	r.key.hash = f.variable(r)
	if !f.lookUp(r.key.hash, names, values) {
		return false
	}
	done.try, done.slot, done.names, done.hash = f.tries, r.slot, &names[0], r.key.hash
	copy(done.values[:], values)
	done.notes = append(done.notes[:0], f.notes...)
	return true
}

// variable returns the value of the variable at r.slot. If r.copied is set, there is no variable, and variable returns
// r.copied. If the variable was read just before, its value is in r.seen, and variable does not read it again.
func (f *reader) variable(r *reading) uint64 {
	if r.copied != 0 {
		return r.copied
	}
	if r.seen != nil {
		if v, ok := r.seen.Word(r.slot); ok {
			f.objects.NoteWord(r.slot, v)
			return v
		}
	}
	return f.word(r.slot)
}

// text returns the beginning of a String, or a Symbol's name. It returns "" for any other object. It also reads after
// an earlier failure, so that the missing memory of all texts is fetched in one call.
func (f *reader) text(v uint64, limit int) (s string) {
	var err error
	switch {
	case v&symbolMask == symbolTag:
		s, err = f.objects.SymbolName(v)
	case f.is(v, heap.TypeString):
		s, _, err = f.objects.Prefix(v, limit)
	case f.is(v, heap.TypeSymbol):
		s, err = f.objects.SymbolName(v)
	}
	f.fails(err)
	return s
}

// symbolTag is the low byte of a Symbol that is not a heap object (RUBY_SYMBOL_FLAG).
const symbolMask, symbolTag = 0xff, 0x0c
