// Package exact turns records of what happened to a scheduler of Ruby's, each made where its mutex is given back, into what each
// thread did: when it held the GVL, when and for how long it wanted it, who held it meanwhile, when neither. Nothing is missed in
// between, so these times are exact to the microsecond, where sampling knows shares.
//
// The package is pure: it reads no process, file or clock. Package probe, below it, makes the records of a live process. Why it
// is enough to look where the mutex is given back is in docs/exact.md.
package exact
