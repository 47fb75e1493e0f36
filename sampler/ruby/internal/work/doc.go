// Package work tells for whom a thread works from the local variables of its frames: the request, with its route, or
// the job; and what it asks a database or another service at the moment. It finds these by names of variables and by
// keys of Hashes, whatever server or library has them, and says nothing where it can't tell (docs/internals/work.md).
package work
