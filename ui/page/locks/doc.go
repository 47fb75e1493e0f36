// Package locks is the view of deadlocks, of locks and what they cost, and of the code that makes threads wait for the
// GVL.
package locks
