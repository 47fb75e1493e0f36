// Package accuracy measures how right ddtop is (what it costs, internal/rivals does). It has tests only.
//
// Programs whose Ruby logs its own thread events (internal/rubytest/eventlog, 3.2 and later) run while ddtop
// samples them, and the time of each thread in each state is compared over the same window. Releases before 3.2 have no
// such events; there the kernel's counters of threads that only compute bracket their waiting.
//
// What noise can't break is asserted by `make test`. The figures, at all rates and for all loads, are measured by
// `make verify` (build tag verify): what they are depends on how busy the machine is, so the load is printed beside them.
package accuracy
