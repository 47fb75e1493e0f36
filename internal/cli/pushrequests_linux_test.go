package cli_test

import (
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// TestPushCountsRequests: `ddtop push` counts each request of the target once, in the period in which the request ends.
// The name of the request is the same as in the profiles.
func TestPushCountsRequests(t *testing.T) {
	t.Parallel()
	ruby := rubytest.One(t).Start(t, `
$stdout.sync = true
def call(env) = STDIN.gets
puts "up"
while STDIN.gets
  call({"REQUEST_METHOD" => "GET", "PATH_INFO" => "/orders/17", "REQUEST_URI" => "/orders/17", "HTTP_HOST" => "host"})
end`, rubytest.Options{})
	ruby.Expect(t, "up")
	in := new(datadogIntake)
	s := httptest.NewServer(in)
	t.Cleanup(s.Close)
	p := startPush(t, "-p", strconv.Itoa(ruby.PID), "--to", "datadog://"+strings.TrimPrefix(s.URL, "http://"), "--period", "1s")
	const route = "GET /orders/:id"
	counted := func() (n int64) {
		for _, u := range in.uploads() {
			for name, c := range u.event.EndpointCounts {
				if name != route {
					t.Fatalf("%q was counted", name)
				}
				n += c
			}
		}
		return n
	}
	for i := range int64(3) {
		seen := len(in.uploads())
		ruby.Send(t, "begin")
		p.await(t, "a profile with the request", func() bool {
			for _, u := range in.uploads()[seen:] {
				for _, s := range u.profile.Sample {
					if e := s.Label["trace endpoint"]; len(e) == 1 && e[0] == route {
						return true
					}
				}
			}
			return false
		})
		if n := counted(); n != i {
			t.Fatalf("while it goes on %d are counted", n)
		}
		ruby.Send(t, "end")
		p.await(t, "its end", func() bool { return counted() > i })
	}
	p.end(t)
	if n := counted(); n != 3 {
		t.Errorf("%d were counted", n)
	}
}
