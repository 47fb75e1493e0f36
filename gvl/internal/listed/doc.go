// Package listed keeps a record for each thread that the samples of a process list.
package listed
