// Package code makes the words with which a sentence, such as the text of a finding, refers to the code of a stack: the
// program's innermost own method, the C function that it called, and the line.
package code
