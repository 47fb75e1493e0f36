// Package canvas is a grid of terminal cells. Views draw text into the grid. The grid is written as a string with as
// few escape sequences as possible. All text is cleaned by the function Clean first. A name from the target can
// therefore neither move the cursor nor shift columns.
package canvas
