// Package locks is the view of locks: deadlocks, the locks and the waiting that each causes, and the code that makes
// threads wait for the GVL.
package locks
