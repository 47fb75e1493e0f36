package canvas

// plain maps the screen's characters to ASCII, for terminals and fonts that lack them.
var plain = map[rune]rune{
	'│': '|', '─': '-', '╭': '+', '╮': '+', '╰': '+', '╯': '+', '▌': '|', '·': '.', '…': '~', '⋯': '~', '–': '-',
	'×': 'x', '≥': '>', '←': '<', '→': '>', '↑': '^', '↓': 'v', '▸': '>', '▾': 'v', '▲': '^', '▼': 'v', '●': '*', '■': '#',
	'▶': '>', '❄': '*', '✓': '+', '✖': 'X', 'ℹ': 'i', 'µ': 'u', '±': '~', '∑': '+', '↻': '@', '≈': '~', '█': '#', '░': ':',
	'▁': '_', '▂': '.', '▃': ',', '▄': '-', '▅': '=', '▆': '+', '▇': '*',
}

// ToASCII replaces every character outside ASCII: the screen's signs by similar ones, others by a question mark for
// each column.
func (g *Grid) ToASCII() {
	for i := range g.cells {
		c := &g.cells[i]
		c.Marks = ""
		if c.Rune >= 0x20 && c.Rune < 0x7f {
			continue
		}
		if p, ok := plain[c.Rune]; ok {
			c.Rune = p
		} else {
			c.Rune = '?'
		}
	}
}
