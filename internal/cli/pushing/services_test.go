package pushing

import (
	"fmt"
	"testing"
	"time"
)

// TestServicesAreForgotten: if there are too many services, a new service takes the place of one whose processes have
// ended. ddtop also forgets such services after a while.
func TestServicesAreForgotten(t *testing.T) {
	f := newServiceFigures()
	f.join("lives")
	for i := range 3 * maxServices {
		f.join(fmt.Sprint("deploy ", i)).leave()
	}
	told := func() map[string]bool {
		names := make(map[string]bool)
		list, _ := f.read()
		for _, s := range list {
			names[s.Name] = true
		}
		return names
	}
	last := fmt.Sprint("deploy ", 3*maxServices-1)
	if got := told(); !got["lives"] || !got[last] || got[otherServices] || len(got) > maxServices {
		t.Errorf("told of %v", got)
	}
	for _, s := range f.all {
		if !s.left.IsZero() {
			s.left = time.Now().Add(-2 * forgetAfter)
		}
	}
	if got := told(); !got["lives"] || len(got) != 1 {
		t.Errorf("later told of %v", got)
	}
}
