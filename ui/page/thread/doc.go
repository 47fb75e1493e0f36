// Package thread is the view of one thread: its stack with the source, its waits, and how its time was shared out.
package thread
