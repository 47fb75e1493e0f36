// Package foreigntest tests ddtop with Rubies whose environment differs from ddtop's. Some Rubies are for another
// machine and run under an emulator. Some run in other namespaces and roots. Some have files that were replaced on disk
// while they ran. Some were built with another C library. Each test compares every thread with the report of the Ruby
// itself.
//
// The package has tests only.
package foreigntest
