// Package canvas is a grid of terminal cells. Views draw text into the grid. It is written as a string with as few
// escape sequences as possible. All text passes Clean first. So a name from the target can neither move the cursor nor
// shift columns.
package canvas
