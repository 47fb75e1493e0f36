// Package widget has the parts that several views use: lists, tables, the timeline, the flamegraph with its panel, the
// first lines of the screen, findings, and overlays (boxes over the screen).
package widget
