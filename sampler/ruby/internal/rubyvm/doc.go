// Package rubyvm finds the Ruby VM in another process's memory. It chooses the layout table of the Ruby release, or
// derives a table from debug information. It proves on the target that the table leads to a VM.
package rubyvm
