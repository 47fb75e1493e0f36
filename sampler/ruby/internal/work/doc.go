// Package work finds the request, with its route, or the job that a thread works for. It reads the local variables of
// the thread's frames. It also finds what the thread asks a database or another service at the moment. It recognizes
// names of variables and keys of Hashes, whatever server or library has them. It returns nothing if it is not certain
// (docs/internals/work.md).
package work
