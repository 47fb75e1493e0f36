// Package live is the first view, with the timeline above the flamegraph. If a thread or a group is selected in the
// timeline, the flamegraph shows only this thread or group.
package live
