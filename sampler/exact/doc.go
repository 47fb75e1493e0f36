// Package exact finds out when each Ruby thread gets, releases and wants the GVL. Its input is a series of records of
// the state of Ruby's scheduler. A record is made whenever a thread gives the scheduler's mutex back. From the records,
// a Machine finds out which thread has got the GVL, wants it or has released it. A Collector gives each sample the
// changes since the previous sample (sampler.Changes). The records miss no change, so the times that package gvl
// computes from them are exact to the microsecond.
//
// The package itself reads no process, file or clock. Its subpackage probe makes the records of a live process.
// docs/reference/exact.md explains why it is enough to make records where the mutex is given back.
package exact
