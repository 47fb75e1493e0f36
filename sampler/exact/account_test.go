package exact

import (
	"math"
	"testing"
)

func TestBuckets(t *testing.T) {
	last := -1
	for _, ns := range []int64{-5, 0, 1, 31, 32, 63, 64, 65, 66, 127, 128, 1000, 50_000, 1e6, 1e9, 1e12, math.MaxInt64} {
		b := bucketOf(ns)
		if b < last || b >= len(Account{}.lengths) {
			t.Fatalf("%d: bucket %d after %d, of %d", ns, b, last, len(Account{}.lengths))
		}
		last = b
		if end := bucketEnd(b); end < ns || float64(end) > float64(max(ns, 1))*(1+1.0/subBuckets)+1 {
			t.Errorf("%d is in a bucket that ends at %d", ns, end)
		}
	}
}

func TestAccount(t *testing.T) {
	a := NewAccount()
	a.Interval(&Interval{TID: 1, State: Running, FromNS: 0, ToNS: 600, NoCPUNS: 50})
	a.Interval(&Interval{TID: 1, State: Released, FromNS: 600, ToNS: 1000})
	a.Interval(&Interval{TID: 2, State: Waiting, FromNS: 0, ToNS: 600, Doubtful: true})
	a.Interval(&Interval{TID: 2, State: Running, FromNS: 600, ToNS: 1000})
	for i := range int64(100) {
		a.Waited(&Wait{Interval: Interval{TID: 2, State: Waiting, FromNS: i, ToNS: i + 10*(i+1), NoCPUNS: 1}, HandoverNS: 2, FirstHolder: 1, LastHolder: 1, InProgress: i == 99})
	}
	s := a.Stat(0, 1000)
	if s.HeldNS != 1000 || s.WaitingNS != 600 || s.DoubtfulNS != 600 || s.Turns != 2 || len(s.Threads) != 2 || s.Threads[0].TID != 2 {
		t.Errorf("%+v", s)
	}
	if want := (Thread{TID: 1, RunningNS: 600, ReleasedNS: 400, RunningNoCPUNS: 50, Turns: 1}); s.Threads[1] != want {
		t.Errorf("%+v, want %+v", s.Threads[1], want)
	}
	w := s.Waits
	if w.Count != 100 || w.InProgress != 1 || w.MaxNS != 1000 || w.HandoverNS != 200 || w.QueueNS != 50500-200 || w.NoCPUNS != 100 {
		t.Errorf("%+v", w)
	}
	for _, q := range []struct{ got, want int64 }{{w.P50NS, 510}, {w.P90NS, 910}, {w.P99NS, 1000}} {
		if q.got < q.want || float64(q.got) > 1.04*float64(q.want) {
			t.Errorf("a quantile of %d, want %d", q.got, q.want)
		}
	}
	if len(s.Longest) != maxLongest || s.Longest[0].NS != 1000 || !s.Longest[0].InProgress || s.Longest[9].NS != 910 {
		t.Errorf("%+v", s.Longest)
	}
}

func TestAccountIsBounded(t *testing.T) {
	a := NewAccount()
	for i := range int32(20 * maxListed) {
		a.Interval(&Interval{TID: i + 1, State: Running, ToNS: 1})
		a.Waited(&Wait{Interval: Interval{TID: i + 1, State: Waiting, ToNS: 1}})
	}
	s := a.Stat(0, 1)
	if len(s.Threads) != maxListed || s.Omitted != 9*maxListed || s.HeldNS != 20*maxListed || s.Waits.Count != 20*maxListed || len(a.threads) > 10*maxListed {
		t.Errorf("%d threads, %d omitted, held %d ns, %d known", len(s.Threads), s.Omitted, s.HeldNS, len(a.threads))
	}
}
