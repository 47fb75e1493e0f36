// Package canvas is a grid of terminal cells: views draw text into it, and it turns into one string with as few escape
// sequences as possible. Everything that is drawn passes Clean first, so a name read from the target can neither move
// the cursor nor break a column.
package canvas
