// Package timeline keeps the states of threads in columns of time, of bounded size, and says who held each GVL meanwhile.
package timeline
