// Package export writes thread dumps, heaps and the results of stat as text and as JSON. Its subpackages write the
// formats of other tools. Neither export nor its subpackages read a process or the clock.
package export
