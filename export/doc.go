// Package export turns what ddtop measured into what other tools and people read: pprof profiles, collapsed stacks,
// speedscope, thread dumps, stat's table, a picture of the screen, and the snapshot folder that holds them together. It
// consumes Samples, states and weights, and never touches a process or the clock; only WriteSnapshot and WriteFile
// touch the disk.
package export
