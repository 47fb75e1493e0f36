package work

import (
	"errors"
	"testing"
)

// TestCredit makes searches with a limited time. A search may start only while time is left, so only the last one can
// exceed the limit. Without a limit, all searches must run.
func TestCredit(t *testing.T) {
	now := int64(0)
	look := func() error { now += 1e6; return nil }
	f := &Finder{allowance: allowance{now: func() int64 { return now }}}
	for range 100 {
		if err := f.onCredit(look); err != nil {
			t.Fatal("without a bound:", err)
		}
	}
	f.Allow(1e9) // the credit is at most maxCredit
	looks := 0
	for range 100 {
		switch err := f.onCredit(look); {
		case err == nil:
			looks++
		case !errors.Is(err, errPutOff):
			t.Fatal(err)
		}
	}
	if looks != 5 {
		t.Errorf("%d looks of 1 ms", looks)
	}
	for range 100 { // each call allows the time of a quarter of a search
		f.Allow(25e4)
		if f.onCredit(look) == nil {
			looks++
		}
	}
	if looks != 5+25 {
		t.Errorf("%d looks of 1 ms", looks)
	}
}
