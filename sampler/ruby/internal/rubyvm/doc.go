// Package rubyvm finds the Ruby VM in another process's memory: it chooses the table of the release, or derives one
// from debug information, and proves on the target that what it leads to is a VM.
package rubyvm
