// Package accuracy measures how exact ddtop's figures are. It has tests only. Package internal/rivals measures what
// ddtop costs.
//
// Ruby 3.2 and later can log when a thread gets, releases or waits for the GVL (internal/rubytest/eventlog). The tests
// sample programs that write such a log. They compare the time of each thread in each state, by ddtop and by the log,
// over the same window. Earlier releases have no such events. For them, the tests use threads that only compute. The
// kernel's counters of these threads bound how long they waited.
//
// `make test` checks only what is true even on a busy machine. `make verify` (build tag verify) measures the figures,
// at all rates and for all loads. These figures depend on how busy the machine is. So `make verify` also prints the
// machine's load.
package accuracy
