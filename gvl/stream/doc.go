// Package stream makes intervals, waits and holds of the GVL from samples and the states of their threads. Each thread
// has a tracker. It follows the thread by samples, and also by changes of the GVL if samples have them. A Stream passes
// the results to its Consumers.
package stream
