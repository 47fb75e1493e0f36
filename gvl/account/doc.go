// Package account adds up what a stream tells: the totals of threads, waits and the collector (Account), who made others wait (Blame), locks,
// requests and jobs, and the lines of `ddtop stat --interval`. It has the types that `ddtop stat` writes as JSON.
package account
