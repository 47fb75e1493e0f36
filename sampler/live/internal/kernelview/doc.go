// Package kernelview asks the kernel about the threads of a sample. It asks only what is needed to tell their states.
package kernelview
