// Package widget has the parts that several views use: lists, tables, the timeline, the flamegraph with its panel, the
// head lines, findings, and overlays.
package widget
