package servertest

import (
	"net/http"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// TestRails: the shop answers each page that the load (app/load.lua) requests, and Completed counts these requests.
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
	// There can be more requests than the test's 5, because StartRails also sends requests until it gets the first
	// answer.
	if done := r.Completed(t, r.Workers[0]) + r.Completed(t, r.Workers[1]); done < 5 {
		t.Errorf("by the log the workers answered %d requests of 5 and more", done)
	}
}
