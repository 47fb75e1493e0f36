// Package canvas is a grid of terminal cells. Views draw text into the grid. The package then writes the grid as a
// string with as few escape sequences as possible. The function Clean makes all text safe before it is drawn. So a name
// from the target can neither move the cursor nor shift columns.
package canvas
