// Package live is the first view, with the timeline and the flamegraph. The flamegraph shows what is selected in the
// timeline.
package live
