// Package foreigntest holds the tests of Rubies that do not live as ddtop does. They are of another machine, under an
// emulator, or in other namespaces and roots. The files of some were replaced on the disk under them, and some were
// built with another C library. Each test compares every thread with its Ruby's own answer.
//
// It has tests only.
package foreigntest
