package work

import "strings"

const (
	// maxRoutes bounds the patterns of paths with a remembered route.
	maxRoutes = 1024
	// enoughOfPattern is how many requests must have had a route, without another route, before a path with values
	// stands for this route. A path without values has the same route each time, so one request is enough. A path
	// without words can have any route.
	enoughOfPattern = 16
)

// routes learns which route a framework finds for a path. Later requests have the name of this route from their first
// reading on, even if they end before their framework has found it. The keys are method and pattern of the path.
type routes map[string]*pathRoute

// pathRoute is the only route that requests of a path had, and how many requests had it. It is empty if there are
// several.
type pathRoute struct {
	name string
	seen int
}

// learn remembers the route of a request with this method and path.
func (r routes) learn(guess, route string) {
	was := r[guess]
	switch {
	case !strings.Contains(guess, "/"): // its path is not known yet
	case was == nil || unserved(was.name) && !unserved(route):
		if len(r) >= maxRoutes {
			clear(r)
		}
		r[guess] = &pathRoute{route, 1}
	case was.name == route:
		was.seen++
	case !unserved(route):
		was.name = ""
	}
}

// name returns the name of a request by its method and path.
func (r routes) name(guess string) string {
	route := r[guess]
	if route == nil || route.name == "" {
		return guess
	}
	_, path, _ := strings.Cut(guess, "/")
	words, values := 0, 0
	parts(path, func(part string) {
		if fixed(part) {
			values++
		} else if part != "" {
			words++
		}
	})
	if values > 0 && (words == 0 || route.seen < enoughOfPattern) {
		return guess
	}
	return route.name
}

// unserved reports whether a name says that no route matched: "404 GET /nosuch".
func unserved(name string) bool {
	status, _, _ := strings.Cut(name, " ")
	return isStatus(status)
}

func isStatus(s string) bool { return len(s) == 3 && strings.Trim(s, "0123456789") == "" }

// noRoute are the exceptions that frameworks raise if no route matches. Read-only.
var noRoute = wordSet("ActionController::RoutingError Sinatra::NotFound Hanami::Router::NotFoundError")

// teach learns the route of a task, once.
func (f *Finder) teach(t *task, route string) {
	if t.taught != route && t.guess != "" {
		t.taught = route
		f.routes.learn(t.guess, route)
	}
}

// notFound names a request "404 …" if its framework has raised that no route matches.
func (f *Finder) notFound(s *State, nowNS int64) {
	t := s.task
	if t == nil || !t.guessed || t.copied != "" {
		return
	}
	if class, _, _ := strings.Cut(s.handled.text, ": "); !noRoute[class] {
		return
	}
	t.copied = "404 " + t.guess
	f.teach(t, t.copied)
	t.work.Endpoint, t.generation = t.copied, 0
	f.seen(t, nowNS)
}
