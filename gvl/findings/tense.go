package findings

import "strings"

// These separate the present of a word from its past in the texts of hits.
const (
	tenseBegins = "\x01"
	tensePast   = "\x02"
	tenseEnds   = "\x03"
)

// tense puts a word that differs between present and past into the text of a hit.
func tense(present, past string) string { return tenseBegins + present + tensePast + past + tenseEnds }

// The words that most texts need.
const (
	tenseIs    = tenseBegins + "is" + tensePast + "was" + tenseEnds
	tenseWaits = tenseBegins + "waits" + tensePast + "waited" + tenseEnds
	tenseWait  = tenseBegins + "wait" + tensePast + "waited" + tenseEnds
	tenseAre   = tenseBegins + "are" + tensePast + "were" + tenseEnds
	tenseSpend = tenseBegins + "spend" + tensePast + "spent" + tenseEnds
	// tenseNow separates a text's figures from its part about the present moment.
	tenseNow = tenseBegins + "now" + tensePast + "last" + tenseEnds
)

// spoken returns a text of a hit in the present or in the past. Names of the process can hold anything, so incomplete
// marks stay.
func spoken(text string, past bool) string {
	var b strings.Builder
	for {
		before, rest, begins := strings.Cut(text, tenseBegins)
		b.WriteString(before)
		if !begins {
			return b.String()
		}
		present, rest, ok := strings.Cut(rest, tensePast)
		then, rest, whole := strings.Cut(rest, tenseEnds)
		switch {
		case !ok || !whole:
			b.WriteString(present + then)
		case past:
			b.WriteString(then)
		default:
			b.WriteString(present)
		}
		text = rest
	}
}

// inTense is a finding in the words for a reader at nowNS.
func (f Finding) inTense(nowNS int64) Finding {
	f.AgoNS = 0
	if f.UntilNS != 0 {
		f.AgoNS = max(nowNS-f.UntilNS, 1)
	}
	f.Title, f.Text, f.Next = spoken(f.Title, f.AgoNS != 0), spoken(f.Text, f.AgoNS != 0), spoken(f.Next, f.AgoNS != 0)
	return f
}
