// Package running takes C stacks of running threads, names their Ruby frames by the clock, and adds them to samples
// (docs/reference/native.md#threads-that-run).
package running
