// Package work finds the request, with its route, or the job for which a thread works. It reads the local variables of
// the thread's frames. It recognizes names of variables and keys of Hashes, in any server or library. It also finds the
// statement or command that the thread sends to a database or another service. If it is not certain, it returns nothing
// (docs/internals/work.md).
package work
