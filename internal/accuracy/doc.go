// Package accuracy measures how exact ddtop's figures are. It has tests only. Package internal/rivals measures what
// ddtop costs.
//
// Ruby 3.2 and later can log the events of its own threads (internal/rubytest/eventlog). Programs with such a log run
// while ddtop samples them. The tests compare the time of each thread in each state over the same window. Releases
// before 3.2 have no such events. For them, the tests use threads that only compute. The kernel's counters of these
// threads give bounds of their waiting.
//
// `make test` asserts only what a busy machine cannot break. `make verify` (build tag verify) measures the figures, at
// all rates and for all loads. These figures depend on how busy the machine is, so it prints the machine's load beside
// them.
package accuracy
