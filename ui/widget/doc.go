// Package widget has what several views are made of: lists and tables, the timeline, the flamegraph with the panel
// under it, the head lines, findings, and what lies over the screen.
package widget
