// Package foreigntest holds the tests of Rubies that do not live as ddtop does: of another machine, under an emulator; in
// other namespaces and roots; whose files have been replaced on the disk under them; built with another C library. Each
// compares every thread with what its Ruby says of it.
//
// It has tests only.
package foreigntest
