// Package locks is the view of locks. It shows deadlocks, and the locks with the time that threads waited for each. It
// also shows the code that makes threads wait for the GVL.
package locks
