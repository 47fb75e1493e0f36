// Package foreigntest holds tests of Rubies whose environment differs from ddtop's. They are for another machine,
// under an emulator, or in other namespaces and roots. Some have files that were replaced on disk while they ran. Some
// were built with another C library. Each test compares every thread with its Ruby's own answer.
//
// It has tests only.
package foreigntest
