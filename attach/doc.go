// Package attach gives access to a target: it finds the process, explains why it can't be read, and reads its memory and its files.
// Core files are targets, too. What a process has mapped is package mapped's. It knows nothing of Ruby's structures.
package attach
