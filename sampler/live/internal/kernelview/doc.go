// Package kernelview adds to a sample what the kernel knows about its threads. Asking costs time, so it asks only what
// is needed to tell the threads' states.
package kernelview
