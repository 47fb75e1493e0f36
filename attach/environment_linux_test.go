package attach_test

import (
	"strings"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/rubytest"
)

// TestEnvironment: Environment returns the current values of variables, even if the process has overwritten the
// original ones with its title.
func TestEnvironment(t *testing.T) {
	rubytest.Each(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, `
$stdout.sync = true
ENV["DD_SERVICE"] = "shop"
ENV["DD_VERSION"] = "1"
ENV["DD_VERSION"] = "2"
puts "up"
STDIN.gets
$0 = "puma: cluster worker 0 [shop] " + "x" * 2000
puts "titled"
STDIN.gets`, rubytest.Options{})
		p.Expect(t, "up")
		target, err := attach.Open(p.PID)
		if err != nil {
			t.Fatal(err)
		}
		defer target.Close()
		check := func(when string) {
			t.Helper()
			got, err := target.Environment(func(name string) bool { return strings.HasPrefix(name, "DD_") || name == "PATH" })
			if err != nil || got["DD_SERVICE"] != "shop" || got["DD_VERSION"] != "2" || got["PATH"] == "" || got["HOME"] != "" {
				t.Errorf("%s: %v, %v", when, got, err)
			}
		}
		check("as started")
		p.Send(t, "")
		p.Expect(t, "titled")
		check("with a title")
	})
}
