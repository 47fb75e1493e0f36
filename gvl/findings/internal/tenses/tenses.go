// Package tenses has words for the texts of findings. Each word has two forms, present and past. Spoken chooses a form
// when the text is shown.
package tenses

import "strings"

// These bytes mark a word with two forms. The byte begins comes first, then the present form, the byte past, the past
// form, and the byte ends.
const (
	begins = "\x01"
	past   = "\x02"
	ends   = "\x03"
)

// Of returns a word for a text, with its present and its past form. Spoken chooses one of the two later.
func Of(present, then string) string { return begins + present + past + then + ends }

// These are words with two forms that many texts need.
const (
	Is    = begins + "is" + past + "was" + ends
	Waits = begins + "waits" + past + "waited" + ends
	Wait  = begins + "wait" + past + "waited" + ends
	Are   = begins + "are" + past + "were" + ends
	Spend = begins + "spend" + past + "spent" + ends
	Take  = begins + "take" + past + "took" + ends
	// Now is the word before the part of a text about the present moment: "now 3 threads". In the past tense, it
	// becomes "last": "last 3 threads".
	Now = begins + "now" + past + "last" + ends
)

// Spoken returns a text in the present tense, or in the past tense if over is true. A name in the text may contain the
// byte begins by chance. If the bytes past and ends do not follow this byte, Spoken removes the byte and keeps the
// text.
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
