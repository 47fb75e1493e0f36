// Package attach gives access to a target: it finds the process, explains why it can't be read, and reads its memory
// and its files. Core files are targets, too. Mapped files are package mapped's. It knows no Ruby structures.
package attach
