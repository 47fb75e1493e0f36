// Package flamegraph shows where time goes. It has a rolling window of weights over (thread, stack, state), and the
// tree that is built from it. It has zoom, search and difference of trees, the layout of a tree into terminal cells,
// and a self-contained SVG. It is pure: it reads no memory, no /proc and no clock. All times come from Samples.
package flamegraph
