package work

import "testing"

// TestPatternOf checks which requests get a pattern. "/:id/:id" must get none, because several routes can have this
// pattern. If no route matched the request, "/orders/:id" must get none either, because then ":id" may stand for any
// text.
func TestPatternOf(t *testing.T) {
	for _, x := range []struct{ guess, endpoint, want string }{
		{"GET /orders/:id", "GET orders#show", "GET /orders/:id"},
		{"GET /orders/:id", "GET /orders/:id", "GET /orders/:id"},
		{"GET /orders/:id", "404 GET /orders/:id", ""},
		{"GET /nosuch", "404 GET /nosuch", "GET /nosuch"},
		{"GET /", "GET home#index", "GET /"},
		{"GET /:id/:id", "GET any#thing", ""},
		{"GET", "GET half#known", ""},
		{"", "Some::Job", ""},
	} {
		if got := patternOf(x.guess, x.endpoint); got != x.want {
			t.Errorf("%q of %q is %q, want %q", x.guess, x.endpoint, got, x.want)
		}
	}
}
