// Package code names the code of a stack for a sentence: the program's innermost own method, the C function that it
// called, and the line.
package code
