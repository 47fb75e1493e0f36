// Package processes is the view with a row for each process. Under the rows it shows the flamegraph, the functions or
// the findings of all processes.
package processes
