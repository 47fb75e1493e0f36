// Package processes is the view with a table of processes. Below the table it shows the flamegraph, the functions or
// the findings of all processes.
package processes
