// Package foreigntest holds tests of Rubies whose environment differs from ddtop's. Some are for another machine and
// run under an emulator. Some run in other namespaces and roots. Some have files that were replaced on disk while they
// ran. Some were built with another C library. Each test compares every thread with the report of its own Ruby.
//
// It has tests only.
package foreigntest
