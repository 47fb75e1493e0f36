// Package style says how the screen looks. It has the themes, and fits their colours to terminals that have few. It
// draws states and shares of time, and writes figures.
package style
