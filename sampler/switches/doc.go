// Package switches finds out what each thread did with the GVL, from records of thread switches. The kernel makes a
// record each time a thread loses its CPU, and sometimes while it has one. Nothing is written to the process, and no
// breakpoint is put into it.
//
// The package is pure: it reads no process, file or clock. Package tracer, in the folder below, makes the records of
// live processes. docs/reference/switches.md explains how records become states.
package switches
