// Package report has the types of everything that --json prints: stat and its lines, thread dumps, requests, the
// collector, exact mode, and the events of record --when. The names of their keys must not change
// (docs/reference/json.md). Durations are in ns, and times whose keys contain "monotonic" are CLOCK_MONOTONIC. A
// pointer is null if its value is not known.
package report
