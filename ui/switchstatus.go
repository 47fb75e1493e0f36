package ui

import (
	"fmt"

	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/style"
)

// SwitchFollower is an ExactSwitch of a process that can be followed by its thread switches (docs/switches.md).
type SwitchFollower interface {
	SwitchStatus() sampler.SwitchStatus
}

// lookAtSwitches takes over how following by thread switches is doing. It reports whether the picture changes by that.
func (sc *scene) lookAtSwitches() bool {
	from, ok := sc.opt.Exact.(SwitchFollower)
	if !ok {
		return false
	}
	before := sc.switches
	sc.switches = from.SwitchStatus()
	s := &sc.switches
	return s.On != before.On || s.Ended != before.Ended || s.Lost != before.Lost
}

// switchSegments say in the head that thread switches are followed, or that they are not although that was asked for.
func switchSegments(s *sampler.SwitchStatus, t *style.Theme) []segment {
	warn := canvas.Style{FG: t.Warn, Attr: canvas.Bold}
	switch {
	case s.On && s.Lost > 0:
		return []segment{{fmt.Sprintf("● switches, %s lost", units.Count(int64(s.Lost))), warn}}
	case s.On:
		return []segment{{"● switches", canvas.Style{FG: t.Accent, Attr: canvas.Bold}}}
	case s.Wanted && s.Ended != "":
		return []segment{{"polling", warn}}
	}
	return nil
}

// switchHelp says in the help how following by thread switches is doing.
func switchHelp(s *sampler.SwitchStatus, p *sampler.Process) []binding {
	switch {
	case s.On:
		return []binding{{show: "switches", help: fmt.Sprintf("times are exact, by %s records of thread switches since %s; %s had no room, %s words of memory could not be read",
			units.Count(int64(s.Records)), p.WallTime(s.SinceNS).Format("15:04:05"), units.Count(int64(s.Lost)), units.Count(int64(s.Failed)))}}
	case s.Wanted && s.Ended != "":
		return []binding{{show: "polling", help: "thread switches are not followed: " + s.Ended}}
	}
	return nil
}
