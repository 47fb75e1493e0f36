package canvas

// plain maps the screen's special characters to ASCII, for terminals and fonts that cannot show them.
var plain = map[rune]rune{
	'│': '|', '─': '-', '╭': '+', '╮': '+', '╰': '+', '╯': '+', '▌': '|', '·': '.', '…': '~', '⋯': '~', '–': '-',
	'×': 'x', '≥': '>', '←': '<', '→': '>', '↑': '^', '↓': 'v', '▸': '>', '▾': 'v', '▲': '^', '▼': 'v', '●': '*', '■': '#',
	'▶': '>', '❄': '*', '✓': '+', '✖': 'X', 'ℹ': 'i', 'µ': 'u', '±': '~', '∑': '+', '↻': '@', '≈': '~', '█': '#', '░': ':',
	'▁': '_', '▂': '.', '▃': ',', '▄': '-', '▅': '=', '▆': '+', '▇': '*',
}

// ToASCII replaces every character of the grid that is not ASCII. ddtop's own signs become similar ASCII signs. Any
// other character becomes one question mark for each column that it takes.
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
