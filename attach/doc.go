// Package attach gives access to a target. It finds the process, explains why it cannot be read, and reads its memory
// and its files. Core files are targets, too. Package mapped reads the mapped files. Package attach knows no Ruby
// structures.
package attach
