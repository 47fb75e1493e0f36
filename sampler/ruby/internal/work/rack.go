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

// maxText bounds a text that is read of a request or a job, in bytes.
const maxText = 1024

// Keys of a Rack environment.
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

// envNames are the keys of an environment that are looked up. Read-only.
var envNames = [envKeys]string{"REQUEST_METHOD", "PATH_INFO", "SCRIPT_NAME", "QUERY_STRING", "action_dispatch.request.path_parameters",
	"sinatra.route", "action_dispatch.route_uri_pattern", "grape.routing_args", "HTTP_X_REQUEST_START", "HTTP_X_QUEUE_START",
	"REQUEST_URI", "REQUEST_PATH", "HTTP_HOST", "HTTP_USER_AGENT",
	"action_dispatch.original_path", "action_dispatch.original_request_method"}

// envIdentity are the keys whose values a request keeps for as long as it runs. Read-only.
var envIdentity = [identityText]int{envURI, envRequestPath, envQuery, envHost, envAgent, envStart}

// envWanted are the keys whose values are read. Read-only.
var envWanted = [...]int{envMethod, envPath, envScript, envQuery, envParameters, envSinatra, envPattern, envGrape, envStart, envQueue,
	envURI, envOriginalPath, envOriginalMethod}

// parameterNames are the keys of Rails' path parameters that make a route. Read-only.
var parameterNames = []string{"controller", "action"}

// readEnv reads the environment of a request: the Rack specification says that it is a Hash, and that the two values are Strings.
func (f *describer) readEnv(scope *code.Scope, r *reading) (found bool, err error) {
	var values [envKeys]uint64
	if err := f.lookUp(r, envNames[:], values[:]); err != nil || values[envMethod] == 0 || values[envPath] == 0 {
		return false, err
	}
	for _, i := range envWanted {
		f.objects.Want(values[i])
	}
	for _, i := range []int{envMethod, envPath} {
		if is, err := f.is(values[i], heap.TypeString); err != nil || !is {
			return false, err
		}
	}
	r.kind = sampler.WorkRequest
	known := false
	for i, key := range envIdentity {
		r.identity[i] = values[key]
		known = known || f.objects.IsObject(values[key])
	}
	var texts [envKeys]string
	var failed error
	// Where looks lie far apart the next request can have all its objects where the last one had its: what was asked for tells them apart,
	// and is read again with the rest.
	r.identity[identityText] = f.identityOf(values[envURI], &failed)
	f.quietly(func() {
		wanted := []int{envMethod, envPath, envScript, envSinatra, envPattern, envStart, envQueue,
			envOriginalPath, envOriginalMethod}
		if f.values {
			wanted = append(wanted, envQuery)
		}
		for _, i := range wanted {
			texts[i] = f.text(values[i], maxText, &failed)
		}
	})
	status := exceptionStatus(&texts)
	r.least.path = values[envPath]
	if !known { // an environment with nothing but the least
		r.identity = [identityWords]uint64{}
		r.least.script, r.least.whole = sum(texts[envScript]), sum(texts[envScript]+texts[envPath])
	}
	env := f.envOf(&values, &texts, &failed)
	if failed != nil {
		return false, failed
	}
	r.proof = requestProof{values[envURI], values[envMethod], values[envPath], sum(env.Script + env.Path)}
	method, rest, guessed := route(&env)
	r.endpoint = f.endpointOf(r, method, rest, guessed)
	r.guess, r.failed = join(method, f.paths.fold(Pattern(env.Script+env.Path))), status != ""
	if guessed {
		if r.endpoint = f.routes.name(r.guess); r.failed {
			r.endpoint = status + " " + r.guess
		}
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
	return true, nil
}

// exceptionStatus returns the status that Rails' exceptions application is called for, or "". That application gets
// the status as the path (ActionDispatch::ShowExceptions, since Rails 4). texts has the request's own path and
// method then.
func exceptionStatus(texts *[envKeys]string) string {
	if texts[envOriginalPath] == "" {
		return ""
	}
	status, _, _ := strings.Cut(strings.TrimPrefix(texts[envPath], "/"), ".")
	texts[envPath], texts[envMethod] = texts[envOriginalPath], cmp.Or(texts[envOriginalMethod], texts[envMethod])
	if !isStatus(status) {
		return ""
	}
	return status
}

// envOf is what an environment says of a route, by its values, of which the texts are known.
func (f *describer) envOf(values *[envKeys]uint64, texts *[envKeys]string, failed *error) Env {
	env := Env{Method: texts[envMethod], Path: texts[envPath], Script: texts[envScript], Query: texts[envQuery],
		SinatraRoute: texts[envSinatra], RoutePattern: texts[envPattern]}
	if v := values[envParameters]; v != 0 {
		var of [2]uint64
		f.quietly(func() {
			if is, err := f.is(v, heap.TypeHash); err != nil || !is {
				*failed = cmp.Or(*failed, err)
				return
			}
			*failed = cmp.Or(*failed, f.objects.Lookup(v, parameterNames, of[:]))
			env.Controller, env.Action = f.text(of[0], maxText, failed), f.text(of[1], maxText, failed)
		})
	}
	if v := values[envGrape]; v != 0 && env.RoutePattern == "" {
		f.quietly(func() { env.RoutePattern = f.grapeRoute(v, failed) })
	}
	return env
}

// endpointOf is the name of a route; guessed: rest is the pattern of a path, from which r is to be learnt if it is new.
func (f *describer) endpointOf(r *reading, method, rest string, guessed bool) string {
	if guessed {
		r.path = rest
		rest = f.paths.fold(rest)
	}
	return join(method, rest)
}

// grapeRoute returns the pattern of the route that Grape has found: what it writes into the environment leads to it.
func (f *describer) grapeRoute(v uint64, failed *error) string {
	if is, err := f.is(v, heap.TypeHash); err != nil || !is {
		*failed = cmp.Or(*failed, err)
		return ""
	}
	var of [1]uint64
	*failed = cmp.Or(*failed, f.objects.Lookup(v, []string{"route_info"}, of[:]))
	route := of[0]
	for _, name := range []string{"@pattern", "@origin"} {
		if is, err := f.is(route, heap.TypeObject); err != nil || !is {
			*failed = cmp.Or(*failed, err)
			return ""
		}
		next, ok, err := f.objects.Ivar(route, name)
		if err != nil || !ok {
			*failed = cmp.Or(*failed, err)
			return ""
		}
		route = next
	}
	return f.text(route, maxText, failed)
}

// maxIdentityText is how much of a text tells tasks apart, in bytes.
const maxIdentityText = 256

// identityOf returns a word that stands for a text; 0: there is none.
func (f *describer) identityOf(v uint64, failed *error) uint64 {
	s := f.text(v, maxIdentityText, failed)
	if s == "" {
		return 0
	}
	return sum(s)
}

// sum returns a word, not 0, that stands for a text.
func sum(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return h.Sum64() | 1
}

// lookedUp is what was looked up in a Hash, and what that was read from, for as long as the view holds that: what follows is still being
// fetched.
type lookedUp struct {
	try    uint64 // Finder.tries
	slot   attach.Address
	names  *string // the first of those that were looked for
	hash   uint64
	values [envKeys]uint64
	notes  []heap.Witness
}

// lookUp reads the Hash that r's variable holds.
func (f *reader) lookUp(r *reading, names []string, values []uint64) error {
	done := &f.pairs
	if done.try == f.tries && done.slot == r.slot && done.names == &names[0] {
		r.key.hash = done.hash
		copy(values, done.values[:])
		f.notes = append(f.notes[:0], done.notes...)
		return nil
	}
	v, err := f.variable(r)
	if err != nil {
		return err
	}
	r.key.hash = v
	if is, err := f.is(v, heap.TypeHash); err != nil || !is {
		return err
	}
	if err = f.objects.Lookup(v, names, values); err == nil && len(values) <= envKeys {
		done.try, done.slot, done.names, done.hash = f.tries, r.slot, &names[0], v
		copy(done.values[:], values)
		done.notes = append(done.notes[:0], f.notes...)
	}
	return err
}

// variable returns what r's variable holds: as it was just read, if it was.
func (f *reader) variable(r *reading) (uint64, error) {
	if r.seen != nil {
		if v, ok := r.seen.Word(r.slot); ok {
			f.objects.NoteWord(r.slot, v)
			return v, nil
		}
	}
	return f.word(r.slot)
}

// text returns the beginning of a String, or a Symbol's name; "" for another object. failed is set where it can't be told, or
// memory is to be fetched first.
func (f *reader) text(v uint64, limit int, failed *error) string {
	if !f.objects.IsObject(v) {
		if v&symbolMask != symbolTag {
			return ""
		}
		s, err := f.objects.SymbolName(v)
		*failed = cmp.Or(*failed, err)
		return s
	}
	flags, err := f.objects.Flags(v)
	s := ""
	if err == nil {
		switch flags & heap.TypeMask {
		case heap.TypeString:
			s, _, err = f.objects.Prefix(v, limit)
		case heap.TypeSymbol:
			s, err = f.objects.SymbolName(v)
		case heap.TypeNone, heap.TypeMoved:
			err = errChanged
		}
	}
	*failed = cmp.Or(*failed, err)
	return s
}

// The low byte of a Symbol that is not an object.
const symbolMask, symbolTag = 0xff, 0x0c
