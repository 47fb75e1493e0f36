// Package rubyvm finds the Ruby VM in another process's memory. It chooses the layout table of the Ruby release, or
// derives a table from debug information. If the table was not made for exactly this Ruby, it verifies the table on the
// target.
package rubyvm
