// Package rubyvm finds the Ruby VM in another process's memory. It chooses the table of the release, or derives one
// from debug information, and proves on the target that the table leads to a VM.
package rubyvm
