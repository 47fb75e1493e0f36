// Package stuckfs is a file system for tests whose files do not answer, like a disk or a server that hangs. Reads and
// writes wait until the test releases them. It uses FUSE, so it needs Linux and root.
package stuckfs
