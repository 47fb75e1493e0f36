// Package exact turns records of a Ruby scheduler into the changes of its GVL. Each record is made where the
// scheduler's mutex is given back. A Machine finds out which thread has got the GVL, wants it or has let it go. A
// Collector gives each sample the changes since the one before (sampler.Changes). No change is missed in between, so
// the times that gvl makes of them are exact to the microsecond.
//
// The package is pure: it reads no process, file or clock. Package probe, below it, makes the records of a live
// process. Why it is enough to look where the mutex is given back is in docs/reference/exact.md.
package exact
