package work

import (
	"strings"
	"testing"
)

// TestHostilePaths passes paths with texts that a client may have chosen. No route may contain these texts.
func TestHostilePaths(t *testing.T) {
	for path, want := range map[string]string{
		"/orders/550e8400e29b41d4a716446655440000":                     "/orders/:id",
		"/orders/jane%2Edoe%40example.com":                             "/orders/:id",
		"/orders/jane@example.com/edit":                                "/orders/:id/edit",
		"/orders/eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dozjgNryP4J3jVm": "/orders/:id",
		"/orders/aGVsbG8=":                                             "/orders/:id",
		"/orders/aBcDe":                                                "/orders/:id",
		"/orders/x7k":                                                  "/orders/:id",
		"/orders/abc12":                                                "/orders/:id",
		"/orders/qzkw":                                                 "/orders/:id",
		"/orders/hunterhunterhunterhunter":                             "/orders/:id",
		"/orders/how-to-hide-my-salary":                                "/orders/:id",
		"/orders/jane.doe":                                             "/orders/:id",
		"/orders/caf\u00e9":                                            "/orders/:id",
		"/orders/\xff\xfe":                                             "/orders/:id",
		"/orders/\u202egnp":                                            "/orders/:id",
		"/orders/a\nb":                                                 "/orders/:id",
		"/orders/a\x00b":                                               "/orders/:id",
		"/orders/~jane":                                                "/orders/:id",
		"/orders/+49301234567":                                         "/orders/:id",
		"/orders/..":                                                   "/orders/:id",
		"/orders/---":                                                  "/orders/:id",
		"/.well-knownhunter":                                           "/:id",
		"/orders;token=hunter/items":                                   "/orders",
		"/orders%3Ftoken=hunter":                                       "/:id",
		"/orders,jane":                                                 "/:id",
		"/reset/hunter":                                                "/reset/:id",
		"/password/edit":                                               "/password/edit",
		"/invitations/qwer/accept":                                     "/invitations/:id/accept",
		"/s/hunter":                                                    "/s/:id",
		"/users/jane":                                                  "/users/:id",
		"/users/jane/orders":                                           "/users/:id/orders",
		"/customers/acme":                                              "/customers/:id",
		"/users/":                                                      "/users/",
		"//orders":                                                     "//orders",
		"*":                                                            ":id",
		"customer.example.com":                                         ":id",
		"customer.example.com:443":                                     ":id",
		"http://jane:hunter@example.com/orders":                        ":id",
		"/http://jane:hunter@example.com/orders":                       "/:id//:id/orders",
		"/orders/" + strings.Repeat("0", maxText-15) + "/hunter": "/orders/:id/:id",
		"/rest_client/order_items/index.html":                    "/rest_client/order_items/index.html",
		"/catalog/step1":                                         "/catalog/step1",
	} {
		if got := Pattern(path); got != want {
			t.Errorf("Pattern(%q) is %q, not %q", path, got, want)
		}
	}
	if got := Pattern("/" + strings.Repeat("o", 1<<20)); got != "/:id" {
		t.Errorf("1 MB: %.100q", got)
	}
}

// TestHostileRoutes passes routes as frameworks leave them in the Rack environment. They can contain a client's words,
// which must not be shown.
func TestHostileRoutes(t *testing.T) {
	for _, c := range []struct {
		env  Env
		want string
	}{
		// With routes like "/pages/:action" or "/:controller/:action", the client chooses controller and action.
		{Env{Method: "GET", Path: "/pages/tok9aQ1xT", Controller: "pages", Action: "tok9aQ1xT"}, "GET pages#:id"},
		{Env{Method: "GET", Path: "/0a1b2c3d/x7q", Controller: "0a1b2c3d", Action: "x7q"}, "GET :id#:id"},
		{Env{Method: "GET", Path: "/pages/%74ok9aQ1xT", Controller: "pages", Action: "tok9aQ1xT"}, "GET pages#:id"},
		{Env{Method: "GET", Path: "/pages/tok9%", Controller: "pages", Action: "tok9"}, "GET pages#:id"},
		{Env{Method: "GET", Path: "/admin/tok9/show", Controller: "admin/tok9", Action: "show"}, "GET admin/:id#show"},
		{Env{Method: "POST", Path: "/inbox/mark_all_as_read", Controller: "inbox", Action: "mark_all_as_read"}, "POST inbox#mark_all_as_read"},
		{Env{Method: "GET", Path: "/x", Controller: "api/v1/s3_files", Action: "utf8?"}, "GET api/v1/s3_files#utf8?"},
		{Env{Method: "GET", Path: "/orders", Controller: "\x1b[31m", Action: "show"}, "GET /orders"},
		{Env{Method: "GET", Path: "/orders", Controller: "orders", Action: "a\nb"}, "GET /orders"},
		{Env{Method: "GET", Path: "/orders", Controller: "orders", Action: strings.Repeat("a", 1000)}, "GET /orders"},
		// The client sends the method, too.
		{Env{Method: "HUNTER", Path: "/orders"}, "/orders"},
		{Env{Method: "GET\r\nX: y", Path: "/orders"}, "/orders"},
		{Env{Method: "\x1b]0;x\a", Path: "/orders"}, "/orders"},
		{Env{Method: "get", Path: "/orders"}, "/orders"},
		{Env{Method: "PROPFIND", Path: "/orders"}, "PROPFIND /orders"},
		{Env{Method: "CONNECT", Path: "customer.example.com:443"}, "CONNECT :id"},
		{Env{Method: "GET", Path: "/orders", SinatraRoute: "HUNTER /orders"}, "GET /orders"},
		{Env{Method: "GET", Path: "/orders/7", SinatraRoute: "hunter"}, "GET /orders/:id"},
		{Env{Method: "GET", Path: "/orders/7", RoutePattern: "hunter"}, "GET /orders/:id"},
		{Env{Method: "GET", Script: "/t/hunter", Path: "/orders/7", SinatraRoute: `GET (?-mix:\A\/orders\/(\d+)\z)`},
			`GET /t/:id(?-mix:\A\/orders\/(\d+)\z)`},
		{Env{}, ""},
	} {
		if got := Route(&c.env); got != c.want {
			t.Errorf("Route(%+v) is %q, not %q", c.env, got, c.want)
		}
	}
}

// TestHostileNames passes any texts in place of names. A text may be shown as a class, a Redis command or a host only
// if it has the form of such a name.
func TestHostileNames(t *testing.T) {
	for name, want := range map[string]bool{
		"MailJob": true, "Mail::Job": true, "::Mail::V2::Job": true, "Delayed::PerformableMethod": true,
		"": false, "mail": false, "Mail::": false, "Mail::job": false, "Mail:Job": false, "Mail Job": false, "Mail\x1b": false, "Jäne": false,
		"Zk9aQ1xTb7Wq2Lm8": false, "Mail::A1B2C3D4E5": false, "::": false, "Hunter@example.com": false,
	} {
		if got := className(name); got != want {
			t.Errorf("className(%q) is %v", name, got)
		}
	}
	for name, want := range map[string]string{
		"get": "GET", "HGETALL": "HGETALL", "ft.search": "FT.SEARCH", "json.get": "JSON.GET", "sort_ro": "SORT_RO",
		"": "", "hunter": "", "x.hunter": "", "ft.": "", "ft.hunter2": "", "get hunter": "", "GET\r\n": "", "ft.a.b": "", "b840fc": "",
		strings.Repeat("get", 100): "",
	} {
		if got := Command(name); got != want {
			t.Errorf("Command(%q) is %q, not %q", name, got, want)
		}
	}
	for name, want := range map[string]string{
		"api.example.com": "api.example.com", "10.0.0.5": "10.0.0.5", "[::1]": "[::1]",
		"": "", "jane:hunter@example.com": "", "a b": "", "a/b": "", "a\n": "", "b\xc3\xbccher.de": "", strings.Repeat("a", 300): "",
	} {
		if got := Host(name); got != want {
			t.Errorf("Host(%q) is %q, not %q", name, got, want)
		}
	}
}
