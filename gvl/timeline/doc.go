// Package timeline keeps the states of threads in columns of time, of bounded size, and the holders of each GVL.
package timeline
