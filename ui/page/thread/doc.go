// Package thread is the view of one thread. It shows its stack with the source, its waits, and how it spent its time.
package thread
