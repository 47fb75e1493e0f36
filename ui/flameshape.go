package ui

import (
	"regexp"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// hideSelected leaves the selected function out of the picture.
func (v *flameView) hideSelected() {
	if v.first() || !v.selNode.IsFrame() {
		return
	}
	if v.hidden == nil {
		v.hidden = make(map[string]bool)
	}
	v.hidden[v.selNode.Label] = true
	if p := v.selNode.Parent; p != nil && p.Parent != nil {
		v.selected = flamegraph.PathOf(p)
	} else {
		v.selected = nil
	}
	v.zoom = nil
}

// focusSelected keeps only the stacks that hold the selected function.
func (v *flameView) focusSelected() {
	if v.first() || !v.selNode.IsFrame() {
		return
	}
	v.focused = v.selNode.Label
	v.zoom = nil
}

// shaped reports whether something is hidden or focused; unshape shows all again.
func (v *flameView) shaped() bool { return len(v.hidden) > 0 || v.focused != "" }

func (v *flameView) unshape() { v.hidden, v.focused = nil, "" }

// shape says in words what the picture is made of.
func (v *flameView) shape() string {
	s := "callers first"
	if v.inverted {
		s = "callees first"
	}
	if v.upward {
		s += ", at the bottom"
	}
	if v.focused != "" {
		s += " · only with " + v.focused
	}
	if n := len(v.hidden); n > 0 {
		s += " · " + units.Plural(n, "function", "functions") + " hidden (esc)"
	}
	if v.base != nil {
		s += " · compared with " + v.baseWhen
		if !v.comparing() {
			s += ", all threads alone"
		}
	}
	return s
}

// options adds what the person chose to the options of a tree.
func (v *flameView) options(o flamegraph.Options) flamegraph.Options {
	o.Endpoint = v.endpoint
	if v.inverted {
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
