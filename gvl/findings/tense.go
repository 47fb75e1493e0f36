package findings

import "github.com/ddtop/ddtop/gvl/findings/internal/tenses"

// These words depend on tense. Spoken chooses the present or the past when the text is shown.
const (
	tenseIs, tenseAre     = tenses.Is, tenses.Are
	tenseWait, tenseWaits = tenses.Wait, tenses.Waits
	tenseSpend, tenseNow  = tenses.Spend, tenses.Now
)

// tense returns a mark for a word that depends on tense. inTense replaces it by present or past later.
func tense(present, past string) string { return tenses.Of(present, past) }

// inTense returns the finding with its words for a reader at nowNS: in the past tense if it has ended.
func (f Finding) inTense(nowNS int64) Finding {
	f.AgoNS = 0
	if f.UntilNS != 0 {
		f.AgoNS = max(nowNS-f.UntilNS, 1)
	}
	over := f.AgoNS != 0
	f.Title, f.Text, f.Next = tenses.Spoken(f.Title, over), tenses.Spoken(f.Text, over), tenses.Spoken(f.Next, over)
	return f
}
