// Package gvltest makes samples for the tests of gvl: threads in each state, random streams of samples, and a
// simulated GVL.
package gvltest
