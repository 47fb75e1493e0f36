// Package running takes C stacks of running threads and adds them to samples. The sampler's clock lets it name the
// Ruby frames of the stacks (docs/reference/native.md#threads-that-run).
package running
