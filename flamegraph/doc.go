// Package flamegraph is ddtop's account of where time goes: a rolling window of weights over (thread, stack, tag), the
// tree built from it, zoom, search and difference of trees, the layout of a tree into terminal cells, and a
// self-contained SVG. It is pure: it reads no memory, no /proc and no clock; every time comes from a Sample.
//
// A tag is a small number that the caller gives each thread at each tick, a gvl.State as a rule. This package does not
// know what tags mean; it keeps their weights apart so that a picture can be filtered and coloured by them.
package flamegraph
