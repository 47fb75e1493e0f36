// Package code names the code of a stack for a sentence: the innermost method of the program itself, the C function
// that it called, the line.
package code
