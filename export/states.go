package export

import "github.com/ddtop/ddtop/gvl"

// StateName names a tag that is a gvl.State, for flamegraph.SVGOptions.
func StateName(tag uint8) string { return gvl.State(tag).String() }
