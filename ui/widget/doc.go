// Package widget has the parts that several views use: lists and tables, the timeline, the flamegraph with the panel
// under it, the head lines, findings, and overlays.
package widget
