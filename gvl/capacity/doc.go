// Package capacity predicts the throughput of a server with another number of threads.
//
// The model is a closed queueing network: N threads use one GVL in turn, and spend the rest of a request outside it. It
// is solved by mean value analysis (Reiser and Lavenberg, 1980). A thread that comes to the GVL waits for the threads
// before it, and for the rest of the hold in progress. The length of that rest depends on how much holds vary. This
// one unknown comes from the waiting that was measured (Reiser's approximation for queues in the order of arrival).
// Between two holders no thread has the GVL until the next one is awake. That time was measured, too. It grows with the
// probability that a thread waits.
//
// The times come from the pool's threads, because the requests that were seen are only a part of all. Time in which
// requests wait for locks, or are ready without the GVL and have no CPU, is left out: other requests cause it.
//
// The model knows the GVL and nothing else. Of refuses to predict where something else limits the server.
package capacity
