// Package tracer makes records of thread switches of live processes, by small programs in the kernel: when a thread
// loses its CPU, when one is woken, and 99 times a second on each CPU. The programs read the process's memory and
// never write to it. They end with ddtop, however that ends, because they hang on its descriptors.
package tracer
