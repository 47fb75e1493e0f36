// Package iterator reads all registers of the threads of a process that sleep, from the kernel and without a stop. A
// small program in the kernel visits the threads each time that ddtop asks. It reads the kernel's memory alone, and
// ends with ddtop, however ddtop ends, because it hangs on ddtop's descriptors.
package iterator
