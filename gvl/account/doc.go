// Package account adds up what a stream delivers: the totals of threads, waits and the collector (Account), the
// threads that made others wait (Blame), locks, requests and jobs, and the lines of `ddtop stat --interval`.
package account
