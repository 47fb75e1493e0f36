// Package kernelview asks the kernel about the threads of a sample, but only what their states need.
package kernelview
