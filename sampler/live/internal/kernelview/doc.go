// Package kernelview asks the kernel what it knows of the threads of a sample, as little as their states need.
package kernelview
