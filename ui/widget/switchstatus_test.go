package widget

import (
	"strings"
	"testing"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/style"
)

// TestSwitchSegments: the first line of the screen says that ddtop follows thread switches, and how many records were
// lost. If ddtop only takes samples although the user asked for thread switches, the line says so. If the user did not
// ask for them, the line says nothing.
func TestSwitchSegments(t *testing.T) {
	for _, c := range []struct {
		is   sampler.SwitchStatus
		want string
	}{
		{sampler.SwitchStatus{}, ""},
		{sampler.SwitchStatus{Ended: "ractors"}, ""},
		{sampler.SwitchStatus{On: true, Kind: "switches", Wanted: true}, "● switches"},
		{sampler.SwitchStatus{On: true, Kind: "moved", Wanted: true}, "● moved"},
		{sampler.SwitchStatus{On: true, Kind: "switches", Wanted: true, Lost: 7}, "● switches, 7 lost"},
		{sampler.SwitchStatus{Wanted: true, Ended: "ractors"}, "polling"},
		{sampler.SwitchStatus{Auto: true, Ended: "ractors"}, "polling"},
		{sampler.SwitchStatus{Auto: true}, ""},
	} {
		var words []string
		for _, s := range switchSegments(&c.is, &style.Theme{}) {
			words = append(words, s.text)
		}
		if got := strings.Join(words, " "); got != c.want {
			t.Errorf("%+v: %q, not %q", c.is, got, c.want)
		}
		help := switchHelp(&c.is, &sampler.Process{})
		if (len(help) > 0) != (c.want != "") {
			t.Errorf("%+v: the help says %+v", c.is, help)
		}
	}
}

// TestNoWaitIsMissed: in exact mode ddtop misses no wait for the GVL. The same is true while ddtop's programs in the
// kernel record thread switches. In two cases ddtop may miss waits: records were lost, or ddtop follows only the
// kernel's events.
func TestNoWaitIsMissed(t *testing.T) {
	for _, c := range []struct {
		head Head
		want bool
	}{
		{Head{}, false},
		{Head{Exact: sampler.ExactStatus{On: true}}, true},
		{Head{Switches: sampler.SwitchStatus{On: true, Kind: "switches"}}, true},
		{Head{Switches: sampler.SwitchStatus{On: true, Kind: "switches", Lost: 1}}, false},
		{Head{Switches: sampler.SwitchStatus{On: true, Kind: "moved"}}, false},
		{Head{Switches: sampler.SwitchStatus{Kind: "switches", Ended: "ractors"}}, false},
	} {
		if got := c.head.followed(); got != c.want {
			t.Errorf("%+v %+v: %v", c.head.Exact, c.head.Switches, got)
		}
	}
}
