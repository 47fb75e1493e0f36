package heap

import "testing"

// TestRecent fills a Recent. With few keys it must stay small, and with many keys it must grow up to its limit. A key
// must never get the value of another key.
func TestRecent(t *testing.T) {
	type slot struct{ key, value uint64 }
	const most = 1 << 10
	var r Recent[slot]
	hash := func(key uint64) uint64 { return key * 0x9e3779b97f4a7c15 >> 32 }
	missed := 0
	use := func(key uint64) {
		s := r.At(hash(key))
		if s.key == key {
			if s.value != 3*key {
				t.Fatalf("key %d has the value %d", key, s.value)
			}
			return
		}
		missed++
		if s.key != 0 {
			s = r.Lose(hash(key), most)
		}
		*s = slot{key, 3 * key}
	}
	rounds := func(keys, times int) (part float64) {
		missed = 0
		for range times {
			for key := range keys {
				use(uint64(key) + 1)
			}
		}
		return float64(missed) / float64(keys*times)
	}
	rounds(8, 5)
	if len(r.slots) != firstSlots {
		t.Errorf("8 keys have %d slots", len(r.slots))
	}
	rounds(most/4, 50)
	if n := len(r.slots); n < most/4 || n > most {
		t.Errorf("%d keys have %d slots", most/4, n)
	}
	if part := rounds(most/4, 50); part > 0.5 {
		t.Errorf("%.2f of the uses find another key", part)
	}
	rounds(16*most, 20)
	if len(r.slots) != most {
		t.Errorf("%d keys have %d slots, and %d are the most", 16*most, len(r.slots), most)
	}
	r.Clear()
	if s := r.At(hash(1)); s.key != 0 {
		t.Error("it was emptied, and has a key")
	}
}
