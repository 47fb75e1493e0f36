// Package mapped reads what a process has mapped: its memory, its mappings, and its ELF files with their symbols, debug
// files and thread-local variables. Among these files it finds the files that contain a CRuby. It opens no process: the
// caller passes a Memory to it.
package mapped
