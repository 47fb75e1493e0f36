package pace

import "testing"

// TestCredit: readings between two ticks take no more than their part of the budget. Unused credit is saved only for a
// limited time.
func TestCredit(t *testing.T) {
	c := Credit{Part: LooksPart}
	const share, cost = 0.03, 200_000
	spent := int64(0)
	for now := int64(1e9); now < 11e9; now += 12e6 {
		if c.Allows(now, share) {
			c.Spend(cost)
			spent += cost
		}
	}
	if most := int64(10e9*share*LooksPart + creditSaveNS*share + cost); spent > most || spent < most/2 {
		t.Errorf("%d ns in 10 s, and %d are allowed", spent, most)
	}
	if !c.Allows(20e9, 0) {
		t.Error("without a limit a look is put off")
	}
}

// TestBells: if the threads of an idle process seldom run, each record of a thread switch wakes the process's clock. If
// they run all the time, records wake the clock at a limited rate.
func TestBells(t *testing.T) {
	const second = int64(1e9)
	var b Bells
	now := 10 * second
	for range 20 {
		for range 4 {
			if now += 3e6; !b.Take(now) {
				t.Fatal("a record of a request each second does not ring")
			}
		}
		now += second
	}
	rang := 0
	for end := now + 10*second; now < end; now += 1e6 {
		if b.Take(now) {
			rang++
		}
	}
	if most := 10*bellsPerSecond + mostBells; rang > most || rang < most-mostBells {
		t.Errorf("%d of 10,000 records in 10 s ring, want %d", rang, most)
	}
}
