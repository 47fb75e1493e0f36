package export

import "github.com/ddtop/ddtop/gvl"

// stateName names a tag that is a gvl.State, for flamegraph.SVGOptions.
func stateName(tag uint8) string { return gvl.State(tag).String() }
