package usual

import (
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

func TestUsualStack(t *testing.T) {
	type stay struct {
		stack sampler.StackID
		ns    int64
	}
	tests := []struct {
		name    string
		stays   []stay
		usual   bool
		longest int64
	}{
		{"nothing yet", nil, false, 0},
		{"only there", []stay{{1, 100}}, true, 100},
		{"elsewhere first", []stay{{2, 100}, {1, 1000}, {3, 5}, {1, 2000}}, true, 2000},
		{"a tenth elsewhere", []stay{{1, 900}, {2, 100}}, true, 900},
		{"more than that", []stay{{1, 900}, {2, 60}, {3, 60}}, false, 900},
		{"never there", []stay{{2, 100}, {3, 100}, {2, 100}}, false, 0},
	}
	for _, tt := range tests {
		var u Stack
		for _, s := range tt.stays {
			u.Stayed(s.stack, s.ns)
		}
		if got := u.Matches(1); got != tt.usual {
			t.Errorf("%s: %v", tt.name, got)
		}
		if tt.usual && u.LongestNS != tt.longest {
			t.Errorf("%s: longest %d", tt.name, u.LongestNS)
		}
	}
}
