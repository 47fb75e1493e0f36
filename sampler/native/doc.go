// Package native reads the C stacks of threads that do not run, from outside and without stopping the process. It
// unwinds with the tables that compilers write for exceptions (.eh_frame), and stops where a register is unknown. It
// finds the place where Ruby's own frames begin, and refuses a stack that does not fit them (docs/reference/native.md).
package native
