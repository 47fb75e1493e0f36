// Package stream makes intervals, waits and holds of the GVL from samples and the verdicts on their threads. A tracker follows each thread, by
// samples alone or by the changes of the GVL that come with them. A Stream hands the results to its Consumers.
package stream
