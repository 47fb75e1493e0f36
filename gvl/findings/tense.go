package findings

import "github.com/ddtop/ddtop/gvl/findings/internal/tenses"

// The words that most texts need, in both tenses.
const (
	tenseIs, tenseAre     = tenses.Is, tenses.Are
	tenseWait, tenseWaits = tenses.Wait, tenses.Waits
	tenseSpend, tenseNow  = tenses.Spend, tenses.Now
)

// tense puts a word that differs between present and past into the text of a hit.
func tense(present, past string) string { return tenses.Of(present, past) }

// inTense is a finding in the words for a reader at nowNS.
func (f Finding) inTense(nowNS int64) Finding {
	f.AgoNS = 0
	if f.UntilNS != 0 {
		f.AgoNS = max(nowNS-f.UntilNS, 1)
	}
	over := f.AgoNS != 0
	f.Title, f.Text, f.Next = tenses.Spoken(f.Title, over), tenses.Spoken(f.Text, over), tenses.Spoken(f.Next, over)
	return f
}
