// Package stuckfs is a file system for tests whose files don't answer, as on a disk or a server that hangs. Reads and
// writes wait until the test lets them go on. It is made with FUSE (Linux, root).
package stuckfs
