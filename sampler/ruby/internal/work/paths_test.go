package work

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// token returns random letters with vowels, which ddtop cannot distinguish from a word.
func token(rng *rand.Rand) string {
	b := make([]byte, 8)
	for i := range b {
		b[i] = "bcdfglmnprstv"[rng.IntN(13)]
		if i%2 == 1 {
			b[i] = "aeiou"[rng.IntN(5)]
		}
	}
	return string(b)
}

// TestPathsOfValues passes paths with too many different words at a position. ddtop must show ":id" for these words,
// and merge the paths that follow them. Words of routes must stay, whatever the order of the requests.
func TestPathsOfValues(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var requests []string
		for n := range 400 {
			requests = append(requests, "/articles/"+token(rng), "/articles/"+token(rng)+"/edit", "/shop/"+token(rng)+"/items/"+token(rng),
				fmt.Sprintf("/resource%s/list", []string{"a", "b", "c", "d"}[n%4]), "/articles/new", "/health")
		}
		var routes []string
		for range maxPositionWords {
			routes = append(routes, "/api/"+token(rng)+"/show")
		}
		for range 20 {
			requests = append(requests, routes...)
		}
		rng.Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
		// A program has many routes. At first, requests use only a few of them, and later more.
		many := make([]string, 0, 3*maxPositionWords)
		for range cap(many) {
			many = append(many, "/many/"+token(rng))
		}
		for n := range 40 * cap(many) {
			requests = append(requests, many[rng.IntN(1+n/40)])
		}
		routes = append(routes, many...)
		var p paths
		for _, path := range requests {
			if got := Pattern(path); got != path {
				continue // the letters alone show that it is no word
			}
			p.learn(p.fold(path))
		}
		for path, want := range map[string]string{
			"/articles/" + token(rng):                      "/articles/:id",
			"/articles/" + token(rng) + "/edit":            "/articles/:id/edit",
			"/shop/" + token(rng) + "/items/" + token(rng): "/shop/:id/items/:id",
			"/resourcea/list":                              "/resourcea/list",
			"/articles/new":                                "/articles/new",
			"/health":                                      "/health",
			"/articles/:id/comments":                       "/articles/:id/comments",
			"/articles":                                    "/articles",
			"/articles/":                                   "/articles/",
			"//health":                                     "//health",
			":id":                                          ":id",
			"":                                             "",
			"/never/seen":                                  "/never/seen",
		} {
			if got := p.fold(path); got != want {
				t.Errorf("seed %d: %q is %q, not %q", seed, path, got, want)
			}
		}
		for _, path := range routes {
			if got := p.fold(path); got != path && Pattern(path) == path {
				t.Errorf("seed %d: %q, a route, is %q", seed, path, got)
			}
		}
	}
}

// TestPathsAgainstFloods has a client that requests any number of paths. Memory must stay bounded, and routes in use
// must keep their names.
func TestPathsAgainstFloods(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var p paths
	routes := []string{"/orders", "/orders/new", "/carts/list", "/login"}
	told := make(map[string]bool)
	for n := range 400 {
		p.learn(routes[n%len(routes)])
	}
	for n := range 60_000 {
		path := "/" + token(rng)
		switch n % 3 {
		case 1:
			path = "/" + token(rng) + "/" + token(rng) + "/" + token(rng)
		case 2:
			path = routes[n/3%len(routes)]
		}
		got := p.fold(path)
		if n%3 != 2 {
			told[got] = true
		} else if got != path {
			t.Fatalf("after %d requests %q is %q", n, path, got)
		}
		p.learn(got)
		if p.nodes > maxPathNodes {
			t.Fatalf("%d words are remembered", p.nodes)
		}
	}
	if n := p.root.count() - 1; n != p.nodes {
		t.Errorf("%d words are remembered, and it says %d", n, p.nodes)
	}
	if len(told) > 4*maxRoutesAt {
		t.Errorf("%d routes are told", len(told))
	}
	// These paths are deep, and all differ.
	for n := range 20_000 {
		path := fmt.Sprintf("/%s", []string{"orders", "carts"}[n%2])
		for range maxSegments - 2 {
			path += "/" + token(rng)
		}
		p.learn(p.fold(path))
		if p.nodes > maxPathNodes {
			t.Fatalf("%d words are remembered", p.nodes)
		}
	}
}

// TestPathsForget passes more words than ddtop remembers. ddtop must forget half of them at once: the words that were
// unused for the longest time. A path in use must stay a route.
func TestPathsForget(t *testing.T) {
	var p paths
	words := make([]string, 0, maxRoutesAt*maxRoutesAt)
	rng := rand.New(rand.NewPCG(3, 4))
	for range 6000 {
		words = append(words, token(rng))
	}
	slices.Sort(words)
	words = slices.Compact(words)
	for i, w := range words { // each word comes so often that its path is a route
		for range usualVisits + 2 {
			p.learn(fmt.Sprintf("/%s/%s", words[i/100], w))
		}
		if p.nodes > maxPathNodes || i == len(words)-1 && p.nodes < maxPathNodes/2-1 {
			t.Fatalf("%d words are remembered", p.nodes)
		}
	}
	for range 100 {
		for _, w := range words[:30] {
			p.learn("/new/" + w + "/list")
		}
	}
	for i := range 2 * maxPathNodes {
		p.learn(fmt.Sprintf("/more/%s/x", words[i%len(words)]))
		p.learn("/new/" + words[0] + "/list")
	}
	if got, want := p.fold("/new/"+words[0]+"/list"), "/new/"+words[0]+"/list"; got != want {
		t.Errorf("%q is %q", want, got)
	}
	if got := p.fold("/more/" + words[0] + "/x"); got != "/more/:id/x" {
		t.Errorf("%q", got)
	}
}
