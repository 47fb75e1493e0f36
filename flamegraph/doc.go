// Package flamegraph shows where time goes. It has a rolling window of weights by thread, stack and state, and builds
// a tree from them. It has zoom, search and difference of trees, the layout of a tree into terminal cells, and a
// self-contained SVG. It reads no memory, no /proc and no clock. All times come from Samples.
package flamegraph
