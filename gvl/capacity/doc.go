// Package capacity predicts the throughput of a server with another number of threads.
//
// The model is a closed queueing network: N threads use one GVL in turn, and spend the remaining time of a request
// outside it. It is solved by mean value analysis (Reiser and Lavenberg, 1980). A thread that wants the GVL waits for
// the threads before it, and for the remaining part of the hold in progress. How long the remaining part is depends on
// the variance of the lengths of holds. This variance is not measured. It is computed from the measured waiting
// (Reiser's approximation for queues in the order of arrival). When the GVL passes from one thread to the next, no
// thread has the GVL until the next thread is awake. This time is measured. It grows with the probability that a thread
// waits.
//
// The times come from all threads of the pool, because ddtop sees only a part of the requests. Two kinds of time are
// left out because other requests cause them: waits for locks, and time in which a thread was ready but had neither the
// GVL nor a CPU.
//
// The model includes only the GVL. If something else limits the server, Of makes no prediction.
package capacity
