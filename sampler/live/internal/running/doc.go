// Package running takes C stacks of running threads and adds them to samples. Only the goroutine that samples the
// process can name the Ruby frames of the stacks. It does this between its ticks
// (docs/reference/native.md#threads-that-run).
package running
