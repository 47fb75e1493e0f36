// Package locks is the view of locks. It shows deadlocks, the locks with the waiting that each causes, and the code
// that makes threads wait for the GVL.
package locks
