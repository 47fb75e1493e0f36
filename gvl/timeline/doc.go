// Package timeline stores, in bounded memory, the states of threads and the holders of each GVL in columns of time.
package timeline
