// Package exact turns records of what happened to a scheduler of Ruby's, each made where its mutex is given back, into
// the changes of its GVL: a Machine finds out which thread has got it, wants it or has let it go, and a Collector gives
// each sample the changes since the one before (sampler.Changes). No change is missed in between, so the times that gvl
// makes of them are exact to the microsecond.
//
// The package is pure: it reads no process, file or clock. Package probe, below it, makes the records of a live
// process. Why it is enough to look where the mutex is given back is in docs/reference/exact.md.
package exact
