package sampler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestRoutesOfPaths: if a request's own route is unknown, it gets the route of requests with the same pattern of path.
// The order of the requests must not matter. A path with two routes keeps its own name. A real route replaces "not
// found".
func TestRoutesOfPaths(t *testing.T) {
	d, number := NewDictionary(), WorkNumber(0)
	add := func(path, endpoint string) WorkID {
		number++
		return d.InternWork(Work{Number: number, Kind: WorkRequest, Path: path, Endpoint: endpoint})
	}
	guesses := map[string]WorkID{}
	for _, path := range []string{"GET /report", "POST /report", "GET /a/:id", "GET /nosuch", "GET /late", "GET /gone", "GET /x/:id", "GET /y/:id"} {
		guesses[path] = add(path, path)
	}
	open := add("", "GET /report") // this request must not get its route from other requests (Work.Path)
	add("GET /report", "GET reports#show")
	add("GET /a/:id", "GET a#show")
	if w := d.Work(guesses["GET /a/:id"]); w.Endpoint != "GET a#show" {
		t.Errorf("%+v", w)
	}
	add("GET /a/:id", "GET a#edit")
	add("GET /a/:id", "GET a#show")
	add("GET /nosuch", "404 GET /nosuch")
	add("GET /late", "404 GET /late")
	add("GET /late", "GET late#show")
	add("GET /gone", "GET gone#show")
	add("GET /gone", "404 GET /gone")
	add("GET /x/:id", "GET x#show")
	add("GET /x/word", "GET /x/:id") // the framework's name for this route is the same text as the pattern of a path
	add("GET /y/word", "GET /y/:id")
	want := map[string]string{"GET /report": "GET reports#show", "POST /report": "POST /report", "GET /a/:id": "GET /a/:id",
		"GET /nosuch": "404 GET /nosuch", "GET /late": "GET late#show", "GET /gone": "GET gone#show", "GET /x/:id": "GET /x/:id",
		"GET /y/:id": "GET /y/:id"}
	routes := d.Routes()
	for path, id := range guesses {
		if w := d.Work(id); w.Endpoint != want[path] || d.OwnWork(id).Endpoint != path {
			t.Errorf("%s is %+v, itself %+v", path, w, d.OwnWork(id))
		}
		if got, ok := routes[path]; ok != (want[path] != path) || ok && got != want[path] {
			t.Errorf("%s stands for %q", path, got)
		}
	}
	if w := d.Work(open); w.Endpoint != "GET /report" {
		t.Errorf("%+v", w)
	}
	for i := range 2 * maxRoutes { // a scanner requests as many paths, and none of them exists
		add(fmt.Sprint("GET /", i), fmt.Sprint("404 GET /", i))
	}
	add("GET /new", "GET new#show")
	if n := len(d.routes); n > maxRoutes || d.Work(guesses["GET /report"]).Endpoint != "GET reports#show" || d.Routes()["GET /new"] != "GET new#show" {
		t.Errorf("%d paths are remembered", n)
	}
	for i := range 2 * maxRoutes {
		add(fmt.Sprint("GET /w", i), "GET a#b")
	}
	if n := len(d.routes); n > maxRoutes {
		t.Errorf("%d paths are remembered", n)
	}
}

// upper is a Filter for tests. It changes names to upper case.
type upper struct{ Filter }

func (upper) Work(w Work) Work {
	w.Endpoint, w.Path = strings.ToUpper(w.Endpoint), strings.ToUpper(w.Path)
	return w
}

// TestRoutesUnderAFilter: Routes must return names only as the Filter has changed them, even after the Filter itself
// was replaced.
func TestRoutesUnderAFilter(t *testing.T) {
	d := NewDictionary()
	d.InternWork(Work{Number: 1, Kind: WorkRequest, Path: "GET /a", Endpoint: "GET a#show"})
	var hidden Filter = upper{}
	var got []string
	for _, f := range []*Filter{nil, &hidden, nil} {
		d.Hide(f)
		for path, route := range d.Routes() {
			got = append(got, path+" "+route)
		}
	}
	if want := []string{"GET /a GET a#show", "GET /A GET A#SHOW", "GET /a GET a#show"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
