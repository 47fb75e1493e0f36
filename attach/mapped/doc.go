// Package mapped reads what a process has mapped: its memory, its mappings, and its ELF files with their symbols, debug
// files and thread-local variables. It finds the files with a CRuby among them. It opens no process: the caller gives
// it the memory.
package mapped
