package findings

import "testing"

// TestLastReadingSurvivesAGap: the last readings of the garbage collector and of the process are kept over a gap of any
// length. They are stored in a ring of seconds. If gap and ring have exactly the same length, the second after the gap
// overwrites the second before it. The readings must still be there.
func TestLastReadingSurvivesAGap(t *testing.T) {
	c := &collector{}
	for i := range c.ring {
		c.ring[i] = second{at: -1, sums: map[sumKey]int64{}}
	}
	at := int64(100)
	c.cur = c.secondAt(at)
	c.cur.proc.AtNS, c.cur.gc.Valid = 7, true
	for gap := int64(1); gap <= 4*int64(len(c.ring)); gap++ {
		at += gap
		c.rotate(at)
		if c.cur.at != at || c.cur.proc.AtNS != 7 || !c.cur.gc.Valid {
			t.Fatalf("after a gap of %d s: second %d, want %d; process read at %d, collector %v", gap, c.cur.at, at, c.cur.proc.AtNS, c.cur.gc.Valid)
		}
	}
}
