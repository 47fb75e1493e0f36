package findings

import "github.com/ddtop/ddtop/gvl/findings/internal/tenses"

// These words differ between present and past. Spoken chooses one when the text is shown.
const (
	tenseIs, tenseAre     = tenses.Is, tenses.Are
	tenseWait, tenseWaits = tenses.Wait, tenses.Waits
	tenseSpend, tenseNow  = tenses.Spend, tenses.Now
)

// tense returns a word of a hit's text that differs between present and past. inTense chooses one later.
func tense(present, past string) string { return tenses.Of(present, past) }

// inTense returns the finding in the words for a reader at nowNS: in the past if it has ended.
func (f Finding) inTense(nowNS int64) Finding {
	f.AgoNS = 0
	if f.UntilNS != 0 {
		f.AgoNS = max(nowNS-f.UntilNS, 1)
	}
	over := f.AgoNS != 0
	f.Title, f.Text, f.Next = tenses.Spoken(f.Title, over), tenses.Spoken(f.Text, over), tenses.Spoken(f.Next, over)
	return f
}
