// Package attach gives access to a target. It finds the process, explains why it cannot be read, and reads its memory
// and its files. A target can also be a core file. Package attach does not interpret Ruby's structures. It leaves the
// reading of mapped files to package mapped.
package attach
