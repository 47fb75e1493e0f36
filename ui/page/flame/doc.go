// Package flame is the view of the flamegraph over the whole screen.
package flame
