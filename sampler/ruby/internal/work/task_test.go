package work

import "testing"

// TestMountedRequest moves a request's path to SCRIPT_NAME and back, and fills in some of its fields later. Meanwhile
// ddtop must regard it as the same request. It must regard the next request in the same Hash as another request.
func TestMountedRequest(t *testing.T) {
	least := func(object uint64, script, path string) *reading {
		return &reading{least: leastIdentity{path: object, script: sum(script), whole: sum(script + path)}}
	}
	at := &task{least: least(8, "", "/shop/7").least}
	for what, c := range map[string]struct {
		r    *reading
		same bool
	}{
		"untouched":             {least(8, "", "/shop/7"), true},
		"half moved":            {least(8, "/shop", "/shop/7"), true},
		"mounted":               {least(16, "/shop", "/7"), true},
		"mounted twice":         {least(24, "/shop/7", ""), true},
		"another path":          {least(16, "", "/shop/8"), false},
		"another one's, moved":  {least(16, "/shop", "/8"), false},
		"the same path, anew":   {least(16, "", "/shop/7"), false},
		"filled":                {&reading{least: leastIdentity{path: 8}, identity: [identityWords]uint64{24}}, true},
		"another one's, filled": {&reading{least: leastIdentity{path: 16}, identity: [identityWords]uint64{24}}, false},
	} {
		if got := at.same(c.r); got != c.same {
			t.Errorf("%s: %v", what, got)
		}
	}
	known := &task{identity: [identityWords]uint64{24}, least: leastIdentity{path: 8}}
	if r := (&reading{identity: [identityWords]uint64{24}, least: leastIdentity{path: 16}}); !known.same(r) {
		t.Error("a path that is rewritten makes another request of it")
	}
	if r := (&reading{identity: [identityWords]uint64{32}, least: leastIdentity{path: 8}}); known.same(r) {
		t.Error("another URI is not another request")
	}
}

// TestNameWhileAnErrorPageAnswers: ddtop sees a request before it has a route, and then only while an error page with a
// route answers it. The request must keep the name that ddtop made of its path. Only a request that ddtop sees first on
// the error page has the error page's route. TestNameOfARequest meets this case only rarely.
func TestNameWhileAnErrorPageAnswers(t *testing.T) {
	guess := reading{endpoint: "GET /orders/:id", path: "/orders/:id", guess: "GET /orders/:id"}
	routed := reading{endpoint: "GET orders#show", guess: "GET /orders/:id"}
	page := reading{endpoint: "GET errors#missing", guess: "GET /orders/:id", failed: true}
	for what, c := range map[string]struct {
		read           []reading
		endpoint, path string
	}{
		"before the route, then the page": {[]reading{guess, page, page}, "GET /orders/:id", "GET /orders/:id"},
		"the route, then the page":        {[]reading{guess, routed, page}, "GET orders#show", "GET /orders/:id"},
		"only the page":                   {[]reading{page, page}, "GET errors#missing", ""},
	} {
		at := &task{}
		for _, r := range c.read {
			at.nameOf(&r)
			at.work.Endpoint, at.work.Path = r.endpoint, r.pattern
		}
		if at.work.Endpoint != c.endpoint || at.work.Path != c.path {
			t.Errorf("%s: %q, path %q", what, at.work.Endpoint, at.work.Path)
		}
	}
}
