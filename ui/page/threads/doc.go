// Package threads is the view with the table of threads.
package threads
