// Package pace decides when ticks come. It has the clock, the sleep of the sampling thread until the next tick, and
// the budget of CPU time that limits the rates.
package pace
