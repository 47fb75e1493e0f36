package work

import "strings"

// patternOf returns Work.Path of a request. guess is its name made of method and path. A path without words can have
// any route. If no route matches one value of a path, another value may still match one.
func patternOf(guess, endpoint string) string {
	_, path, ok := strings.Cut(guess, "/")
	if !ok { // its path is not known yet
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

// noRoute are the exceptions that frameworks raise if no route matches. Read-only.
var noRoute = wordSet("ActionController::RoutingError Sinatra::NotFound Hanami::Router::NotFoundError")

// notFound names a request "404 …" if its framework has raised that no route matches.
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

// rename gives a task the name that its environment does not have.
func (f *Finder) rename(t *task, endpoint string, nowNS int64) {
	t.copied, t.work.Endpoint, t.work.Path, t.generation = endpoint, endpoint, patternOf(t.guess, endpoint), 0
	f.seen(t, nowNS)
}
