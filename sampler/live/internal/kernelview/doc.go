// Package kernelview adds the kernel's facts about threads to a sample. Each question to the kernel costs time. So the
// package asks only for facts that it needs to find out the threads' states.
package kernelview
