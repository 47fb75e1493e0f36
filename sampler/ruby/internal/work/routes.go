package work

import "strings"

// patternOf returns the value for a request's Work.Path. Usually this is guess: the request's method and the pattern of
// its path, such as "GET /orders/:id". patternOf returns "" if several routes can have this pattern. This is so if the
// pattern consists only of ":id", or if it has an ":id" and no route matched the request.
func patternOf(guess, endpoint string) string {
	_, path, ok := strings.Cut(guess, "/")
	if !ok { // the path is not known yet
		return ""
	}
	words, values := 0, 0
	parts(path, func(part string) {
		if fixed(part) {
			values++
		} else if part != "" {
			words++
		}
	})
	if values > 0 && (words == 0 || strings.HasSuffix(endpoint, " "+guess)) {
		return ""
	}
	return guess
}

// noRoute are the exceptions that frameworks raise if no route matches a request. Read-only.
var noRoute = wordSet("ActionController::RoutingError Sinatra::NotFound Hanami::Router::NotFoundError")

// notFound renames a request to "404 …" if its framework has raised an exception because no route matches the request.
func (f *Finder) notFound(s *State, nowNS int64) {
	t := s.task
	if t == nil || !t.guessed || t.copied != "" {
		return
	}
	if class, _, _ := strings.Cut(s.handled.text, ": "); !noRoute[class] {
		return
	}
	f.rename(t, "404 "+t.guess, nowNS)
}

// rename gives a task a route that did not come from the task's own environment. The route came from a copy of the
// environment, or from an exception.
func (f *Finder) rename(t *task, endpoint string, nowNS int64) {
	t.copied, t.work.Endpoint, t.work.Path, t.generation = endpoint, endpoint, patternOf(t.guess, endpoint), 0
	f.seen(t, nowNS)
}
