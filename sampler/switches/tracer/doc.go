// Package tracer records the thread switches of live processes with small programs in the kernel (eBPF). They make a
// record when a thread loses its CPU, when a thread is woken, and 99 times a second on each CPU. The programs read the
// process's memory and never write to it. They are tied to descriptors of ddtop, so they end with ddtop even if it
// crashes.
package tracer
