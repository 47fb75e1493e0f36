// Package mapped reads what a process has mapped: its memory, its mappings, and its ELF files with their symbols, debug
// files and thread-local variables. It finds those files that hold a CRuby. It opens no process.
package mapped
