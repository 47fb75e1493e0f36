// Package flamegraph shows where time goes. It keeps a rolling window of weights by thread, stack and state, and builds
// trees from them. A tree can be zoomed, searched, compared with another tree, laid out in terminal cells, or written
// as a self-contained SVG. The package reads no memory, no /proc and no clock. All times come from Samples.
package flamegraph
