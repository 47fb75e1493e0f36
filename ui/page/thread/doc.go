// Package thread is the view of one thread. It shows the thread's stack with the source code, its waits for the GVL,
// and how it spent its time.
package thread
