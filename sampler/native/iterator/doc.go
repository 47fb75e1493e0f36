// Package iterator reads all registers of a process's sleeping threads from the kernel, without stopping the process.
// A small BPF program visits the threads when ddtop asks. It reads only the kernel's memory. It ends with ddtop,
// however ddtop ends, because ddtop's descriptors keep it loaded.
package iterator
