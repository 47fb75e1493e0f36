// Package foreigntest tests ddtop with Rubies whose environment differs from ddtop's. Some Rubies are for another kind
// of machine and run under an emulator. Some run in other namespaces and root folders. Some have files that were
// replaced on disk while they ran. Some were built with another C library. Each test compares what ddtop reads about
// every thread with what the Ruby itself reports.
//
// The package has tests only.
package foreigntest
