package work

import (
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

func TestServed(t *testing.T) {
	for _, c := range []struct {
		kind           sampler.WorkKind
		resource, want string
	}{
		{sampler.WorkRequest, "OrdersController#index", "OrdersController#index"},
		{sampler.WorkRequest, "Admin::OrdersController#index", "Admin::OrdersController#index"},
		{sampler.WorkRequest, "admin/orders#show", "admin/orders#show"},
		{sampler.WorkRequest, "GET /orders/:id", "GET /orders/:id"},
		{sampler.WorkRequest, "GET /orders/4711?token=x", "GET /orders/:id"},
		{sampler.WorkRequest, "/pkg.Greeter/say_hello", "/pkg.Greeter/say_hello"},
		{sampler.WorkRequest, "GET 200", "GET 200"},
		{sampler.WorkRequest, "orders/4711", ""},
		{sampler.WorkRequest, "GET jane.doe", ""},
		{sampler.WorkRequest, "tok9aQ1xT", ""},
		{sampler.WorkRequest, "/jane.doe/orders", "/:id/orders"},
		{sampler.WorkRequest, "mail to a@b.c", ""},
		{sampler.WorkRequest, "", ""},
		{sampler.WorkJob, "Reports::DailyJob", "Reports::DailyJob"},
		{sampler.WorkJob, "DailyJob.perform", "DailyJob.perform"},
		{sampler.WorkJob, "send to a@b.c", ""},
	} {
		if got := Served(c.kind, c.resource); got != c.want {
			t.Errorf("a %v of %q is %q, not %q", c.kind, c.resource, got, c.want)
		}
	}
}

// Served returns the results of served joined to one text.
func Served(kind sampler.WorkKind, resource string) string {
	method, rest, _ := served(kind, resource)
	return join(method, rest)
}
