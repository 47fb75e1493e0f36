// Package switches turns records of thread switches into what each thread did with the GVL. A record is made by the
// kernel each time a thread loses its CPU, and now and then while it has one. Nothing is written to the process, and no
// breakpoint is put into it.
//
// The package is pure: it reads no process, file or clock. Package tracer, below it, makes the records of live
// processes. How records become states is in docs/reference/switches.md.
package switches
