// Package work finds what a thread works for, from the local variables of its frames: the request, with its route, or
// the job. It also finds what the thread asks a database or another service at the moment. It goes by names of
// variables and keys of Hashes, whatever server or library has them, and returns nothing if it cannot tell
// (docs/internals/work.md).
package work
