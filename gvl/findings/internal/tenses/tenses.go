// Package tenses has the words of findings that differ between present and past.
package tenses

import "strings"

// These separate the present of a word from its past.
const (
	begins = "\x01"
	past   = "\x02"
	ends   = "\x03"
)

// Of puts a word that differs between present and past into a text.
func Of(present, then string) string { return begins + present + past + then + ends }

// The words that most texts need.
const (
	Is    = begins + "is" + past + "was" + ends
	Waits = begins + "waits" + past + "waited" + ends
	Wait  = begins + "wait" + past + "waited" + ends
	Are   = begins + "are" + past + "were" + ends
	Spend = begins + "spend" + past + "spent" + ends
	Take  = begins + "take" + past + "took" + ends
	// Now separates a text's figures from its part about the present moment.
	Now = begins + "now" + past + "last" + ends
)

// Spoken returns a text in the present, or in the past if over is true. Names of the process can hold anything, so
// incomplete marks stay.
func Spoken(text string, over bool) string {
	var b strings.Builder
	for {
		before, rest, marked := strings.Cut(text, begins)
		b.WriteString(before)
		if !marked {
			return b.String()
		}
		present, rest, ok := strings.Cut(rest, past)
		then, rest, whole := strings.Cut(rest, ends)
		switch {
		case !ok || !whole:
			b.WriteString(present + then)
		case over:
			b.WriteString(then)
		default:
			b.WriteString(present)
		}
		text = rest
	}
}
