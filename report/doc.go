// Package report has the types of all that --json prints: stat and its lines, thread dumps, requests, the collector,
// exact mode, and the events of record --when. The names of their keys are a contract (docs/reference/json.md).
// Durations are in ns, and times whose keys contain "monotonic" are CLOCK_MONOTONIC. Pointers are null where a value is
// not known.
package report
