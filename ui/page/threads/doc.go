// Package threads is the view of the table of threads.
package threads
