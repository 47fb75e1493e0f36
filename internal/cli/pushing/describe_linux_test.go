package pushing

import (
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler/live"
)

// TestServiceOfTheDead: after a process has ended, ddtop cannot read its environment, but must still know the name of
// its service. Otherwise the process's findings would belong to another service.
func TestServiceOfTheDead(t *testing.T) {
	t.Parallel()
	ruby := rubytest.One(t).Start(t, `$stdout.sync = true; puts "up"; STDIN.gets`, rubytest.Options{Env: []string{"DD_SERVICE=shop"}})
	ruby.Expect(t, "up")
	src, err := live.Open(t.Context(), ruby.PID, live.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	one := &pushed{src: src}
	one.describe(nil)
	before := one.service()
	ruby.CloseStdin(t)
	ruby.Wait(t)
	one.describe(nil)
	if after := one.service(); before != "shop" || after != "shop" {
		t.Errorf("its service was %q, and is %q", before, after)
	}
}
