// Package listed keeps a record for each thread that samples list.
package listed
