// Package flamegraph is ddtop's account of where time goes: a rolling window of weights over (thread, stack, state), the
// tree built from it, zoom, search and difference of trees, the layout of a tree into terminal cells, and a
// self-contained SVG. It is pure: it reads no memory, no /proc and no clock; every time comes from a Sample.
package flamegraph
