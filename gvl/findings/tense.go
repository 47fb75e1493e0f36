package findings

import "github.com/ddtop/ddtop/gvl/findings/internal/tenses"

// These words have a present and a past form. tenses.Spoken chooses one of the two when the text is shown.
const (
	tenseIs, tenseAre     = tenses.Is, tenses.Are
	tenseWait, tenseWaits = tenses.Wait, tenses.Waits
	tenseSpend, tenseNow  = tenses.Spend, tenses.Now
)

// tense returns a placeholder for a word in two forms, present and past. inTense later replaces the placeholder by one
// form.
func tense(present, past string) string { return tenses.Of(present, past) }

// inTense returns the finding as a reader at nowNS sees it: its words are in the past tense if it has ended.
func (f Finding) inTense(nowNS int64) Finding {
	f.AgoNS = 0
	if f.UntilNS != 0 {
		f.AgoNS = max(nowNS-f.UntilNS, 1)
	}
	over := f.AgoNS != 0
	f.Title, f.Text, f.Next = tenses.Spoken(f.Title, over), tenses.Spoken(f.Text, over), tenses.Spoken(f.Next, over)
	return f
}
