package servertest

import (
	"net/http"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// TestRails: each page of the load answers.
func TestRails(t *testing.T) {
	rubytest.Long(t)
	t.Parallel()
	r := StartRails(t, 2, 5)
	for _, path := range []string{"/orders?page=3", "/orders/7", "/report", "/stock"} {
		answer, err := http.Get(r.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if answer.StatusCode != 200 {
			t.Errorf("%s: %s", path, answer.Status)
		}
	}
}
