// Package code names the code of a stack in words, for sentences such as the text of a finding. It names the program's
// own innermost method, the C function that this method called, and the line.
package code
