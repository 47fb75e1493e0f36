// Package accuracy measures how exact ddtop's figures are. It has tests only. internal/rivals measures what ddtop
// costs.
//
// Programs whose Ruby logs its own thread events (internal/rubytest/eventlog, 3.2 and later) run while ddtop samples
// them. The time of each thread in each state is compared over the same window. Releases before 3.2 have no such
// events. There, the kernel's counters of threads that only compute give bounds of their waiting.
//
// `make test` asserts what noise cannot break. `make verify` (build tag verify) measures the figures, at all rates and
// for all loads. They depend on how busy the machine is, so it prints the load beside them.
package accuracy
