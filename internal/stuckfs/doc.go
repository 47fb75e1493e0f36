// Package stuckfs is a file system for tests. Its files can stop answering, like a disk or a server that hangs. Reads
// and writes then wait until the test releases them. It uses FUSE, so it needs Linux and root.
package stuckfs
