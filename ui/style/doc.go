// Package style decides how the screen looks. It has the colour themes, and adapts them to terminals with few colours.
// It draws states and shares of time, and formats figures.
package style
