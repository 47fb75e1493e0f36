package work

import "testing"

func TestPattern(t *testing.T) {
	for path, want := range map[string]string{
		"":                            "",
		"/":                           "/",
		"/orders":                     "/orders",
		"/orders/":                    "/orders/",
		"/orders/17":                  "/orders/:id",
		"/orders/17/items/9":          "/orders/:id/items/:id",
		"/orders?page=3&token=secret": "/orders",
		"/orders/17;jsessionid=0AF":   "/orders/:id",
		"/api/v1/orders":              "/api/v1/orders",
		"/api/v2.1/users/me":          "/api/v2.1/users/me",
		"/f/550e8400-e29b-41d4-a716-446655440000":  "/f/:id",
		"/c/deadbeefcafe":                          "/c/:id",
		"/s/eyJhbGciOiJIUzI1NiJ9":                  "/s/:id",
		"/reset/Zk9aQ1xT":                          "/reset/:id",
		"/users/jane.doe@example.com":              "/users/:id",
		"/users/jane%40example.com":                "/users/:id",
		"/2024-01-01":                              "/:id",
		"/assets/application-0123456789abcdef.css": "/assets/:id",
		"/index.html":                              "/index.html",
		"/oauth2/token":                            "/oauth2/token",
		"/.well-known/security.txt":                "/.well-known/security.txt",
		"/.env":                                    "/:id",
		"/t/xkcdqwrtpz":                            "/t/:id",
		"/orders/\x1b[31m":                         "/orders/:id",
		"/Orders/New":                              "/:id/:id",
		"/aa/bb/cc/dd/ee/ff/gg/hh/ii/jj/kk/ll/mm/nn/oo/pp/qq/rr": "/aa/bb/cc/dd/ee/ff/gg/hh/ii/jj/kk/ll/mm/nn/oo/pp/…",
	} {
		if got := Pattern(path); got != want {
			t.Errorf("Pattern(%q) is %q, not %q", path, got, want)
		}
	}
}

func TestRoute(t *testing.T) {
	for _, c := range []struct {
		env  Env
		want string
	}{
		{Env{Method: "GET", Path: "/orders/7", Controller: "orders", Action: "show"}, "GET orders#show"},
		{Env{Method: "POST", Path: "/x", Controller: "admin/orders", Action: "destroy!"}, "POST admin/orders#destroy!"},
		{Env{Method: "GET", Path: "/orders/7", SinatraRoute: "GET /orders/:number"}, "GET /orders/:number"},
		{Env{Method: "GET", Script: "/shop", Path: "/orders/7", SinatraRoute: "GET /orders/:number"}, "GET /shop/orders/:number"},
		{Env{Method: "GET", Path: "/orders/7", RoutePattern: "/orders/:id(.:format)"}, "GET /orders/:id"},
		{Env{Method: "GET", Script: "/shop", Path: "/orders/7"}, "GET /shop/orders/:id"},
		{Env{Method: "GET", Path: "/orders/7", Controller: "secret value", Action: "x"}, "GET /orders/:id"},
		{Env{Method: "get; drop", Path: "/orders"}, "/orders"},
		{Env{Method: "OPTIONS"}, "OPTIONS"},
	} {
		if got := Route(&c.env); got != c.want {
			t.Errorf("Route(%+v) is %q, not %q", c.env, got, c.want)
		}
	}
}

func TestQueued(t *testing.T) {
	const now = 1_700_000_000.5
	for text, want := range map[string]int64{
		"t=1700000000.25":                        250_000_000,
		"1700000000.25":                          250_000_000,
		"t=1700000000250":                        250_000_000,
		"1700000000250":                          250_000_000,
		"t=1700000000250000":                     250_000_000,
		"1700000000250000000":                    250_000_000,
		"t=1700000001":                           0, // later than the current time
		"t=1600000000":                           0, // years ago
		"":                                       0,
		"t=":                                     0,
		"yesterday":                              0,
		"NaN":                                    0,
		"1e9":                                    0,
		"-5":                                     0,
		"1.7.0":                                  0,
		"17000000002500000000000000000000000000": 0,
	} {
		// The result may differ by 1,000 ns: a time with 19 digits is exact only to a few hundred ns.
		if got := Queued(text, now); got < want-1000 || got > want+1000 {
			t.Errorf("Queued(%q) is %d, not %d", text, got, want)
		}
	}
}

// Route returns the route of a request as one text.
func Route(env *Env) string {
	method, rest, _ := route(env)
	return join(method, rest)
}
