package pace

import "testing"

// TestCredit: looks between two ticks take no more than their part of the budget, and what was not used is not
// saved up for ever.
func TestCredit(t *testing.T) {
	var c Credit
	const share, cost = 0.03, 200_000
	spent := int64(0)
	for now := int64(1e9); now < 11e9; now += 12e6 {
		if c.Allows(now, share) {
			c.Spend(cost)
			spent += cost
		}
	}
	if most := int64(10e9*share*creditShare + creditSaveNS*share + cost); spent > most || spent < most/2 {
		t.Errorf("%d ns in 10 s, and %d are allowed", spent, most)
	}
	if !c.Allows(20e9, 0) {
		t.Error("without a limit a look is put off")
	}
}
