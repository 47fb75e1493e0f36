package work

import (
	"fmt"
	"testing"
)

// TestRoutesOfPaths: a path without values stands for the route that one request had, a path with values for the only
// route of many requests. A path with two routes stands for itself. A route comes before "not found".
func TestRoutesOfPaths(t *testing.T) {
	r := make(routes)
	learn := func(n int, guess, route string) {
		for range n {
			r.learn(guess, route)
		}
	}
	learn(1, "GET /report", "GET reports#show")
	learn(enoughOfPattern-1, "GET /orders/:id", "GET orders#show")
	learn(enoughOfPattern, "GET /pages/:id", "GET pages#show")
	learn(1, "GET /pages/:id", "404 GET /pages/:id")
	learn(99, "GET /:id/:id", "GET any#thing")
	learn(enoughOfPattern, "GET /a/:id", "GET a#show")
	learn(1, "GET /a/:id", "GET a#edit")
	learn(1, "GET /nosuch", "404 GET /nosuch")
	learn(1, "GET /late", "404 GET /late")
	learn(1, "GET /late", "GET late#show")
	learn(1, "GET", "GET half#known")
	for guess, want := range map[string]string{
		"GET /report": "GET reports#show", "POST /report": "POST /report", "GET /orders/:id": "GET /orders/:id",
		"GET /pages/:id": "GET pages#show", "GET /:id/:id": "GET /:id/:id",
		"GET /a/:id": "GET /a/:id", "GET /nosuch": "404 GET /nosuch", "GET /late": "GET late#show", "GET": "GET",
	} {
		if got := r.name(guess); got != want {
			t.Errorf("%s is %s, want %s", guess, got, want)
		}
	}
	if learn(1, "GET /orders/:id", "GET orders#show"); r.name("GET /orders/:id") != "GET orders#show" {
		t.Error("enough requests are not enough")
	}
	for i := range 2 * maxRoutes {
		r.learn(fmt.Sprint("GET /", i), "GET a#b")
	}
	if len(r) > maxRoutes {
		t.Errorf("%d paths are remembered", len(r))
	}
}
