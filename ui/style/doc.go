// Package style says how the screen looks: its themes, how colours fit terminals that have few of them, how a state and
// a share of time are drawn, and how figures are written.
package style
