// Package clock copies the C stack and the Ruby stack of running threads at the same instant. A small program in the
// kernel does this 49 times a second on each CPU. The program reads the process's memory and never writes to it. The
// kernel removes the program when ddtop ends, however ddtop ends, because the program is tied to ddtop's descriptors.
package clock
