// Package locks is the view of deadlocks, locks with their holders, and whose code makes others wait for the GVL.
package locks
