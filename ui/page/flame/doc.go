// Package flame is the view with a flamegraph over the whole screen.
package flame
