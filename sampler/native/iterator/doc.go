// Package iterator reads all registers of a process's sleeping threads from the kernel, without stopping the process. A
// small BPF program visits the threads when ddtop asks. It reads only the kernel's memory. Only ddtop's descriptors
// keep the program loaded, so it ends with ddtop, however ddtop ends.
package iterator
