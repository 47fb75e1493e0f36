// Package processes is the view of a row a process, and under them the flamegraph, the functions or the findings of all of them.
package processes
