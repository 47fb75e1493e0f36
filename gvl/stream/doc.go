// Package stream makes intervals, waits and holds of the GVL from samples and the states of their threads. A tracker
// follows each thread, only by samples or also by changes of the GVL. A Stream passes the results to its Consumers.
package stream
