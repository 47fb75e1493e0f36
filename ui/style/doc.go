// Package style decides how the screen looks. It has the themes, and adapts their colours to terminals with few
// colours. It draws states and shares of time, and formats figures.
package style
