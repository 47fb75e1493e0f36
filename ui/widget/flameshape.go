package widget

import (
	"regexp"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// HideSelected leaves the selected function out of the picture.
func (v *Flame) HideSelected() {
	if v.First() || !v.SelNode.IsFrame() {
		return
	}
	if v.hidden == nil {
		v.hidden = make(map[string]bool)
	}
	v.hidden[v.SelNode.Label] = true
	if p := v.SelNode.Parent; p != nil && p.Parent != nil {
		v.Selected = flamegraph.PathOf(p)
	} else {
		v.Selected = nil
	}
	v.Zoom = nil
}

// FocusSelected keeps only the stacks that hold the selected function.
func (v *Flame) FocusSelected() {
	if v.First() || !v.SelNode.IsFrame() {
		return
	}
	v.focused = v.SelNode.Label
	v.Zoom = nil
}

// Shaped reports whether something is hidden or focused; unshape shows all again.
func (v *flameShape) Shaped() bool { return len(v.hidden) > 0 || v.focused != "" }

func (v *flameShape) Unshape() { v.hidden, v.focused = nil, "" }

// Shape says in words what the picture is made of.
func (v *Flame) Shape() string {
	s := "callers first"
	if v.Inverted {
		s = "callees first"
	}
	if v.Upward {
		s += ", at the bottom"
	}
	if v.focused != "" {
		s += " · only with " + v.focused
	}
	if n := len(v.hidden); n > 0 {
		s += " · " + units.Plural(n, "function", "functions") + " hidden (esc)"
	}
	if v.Base != nil {
		s += " · compared with " + v.BaseWhen
		if !v.Comparing() {
			s += ", all threads alone"
		}
	}
	return s
}

// options adds what the person chose to the options of a tree.
func (v *Flame) options(o flamegraph.Options) flamegraph.Options {
	o.Endpoint = v.Endpoint
	if v.Inverted {
		o.Inverted, o.Root = true, nil
	}
	if len(v.hidden) > 0 {
		o.Hide = func(f *sampler.Frame) bool { return v.hidden[f.Label] }
	}
	if v.focused != "" {
		o.Keep = regexp.MustCompile("^" + regexp.QuoteMeta(v.focused) + "$")
	}
	return o
}
