// Package pace says when ticks come: the clock that they keep, how the sampling thread sleeps until the next one, and
// the budget of CPU time that their rate follows.
package pace
