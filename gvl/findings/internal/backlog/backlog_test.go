package backlog

import (
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// TestGrowing: Growing finds a Queue that only grows. It does not find three other kinds of Queue: one that is filled
// and emptied, one that grows only a little, and one that is new.
func TestGrowing(t *testing.T) {
	const sec = int64(1e9)
	for _, c := range []struct {
		name   string
		length func(i int64) int64
		n      int64
		from   int64
		found  bool
	}{
		{"grows", func(i int64) int64 { return 100 + 5*i }, 40, 195, true},
		{"grows with ups and downs", func(i int64) int64 { return 100 + 20*i - i%3*15 }, 40, 0, true},
		{"is filled and emptied", func(i int64) int64 { return i % 8 * 30 }, 40, 0, false},
		{"was filled at once", func(i int64) int64 { return min(i, 25) / 25 * 1000 }, 40, 0, false},
		{"is long and stays so", func(int64) int64 { return 5000 }, 40, 0, false},
		{"grows by little", func(i int64) int64 { return 100_000 + 5*i }, 40, 0, false},
		{"has just been seen", func(i int64) int64 { return 100 + 5*i }, 15, 0, false},
	} {
		var b Queues
		for i := range c.n {
			b.Add(&sampler.Sample{Queues: &sampler.Queues{AtNS: 1000*sec + i*sec, Lists: []sampler.List{
				{Object: 8, Name: "@jobs", Length: c.length(i)}, {Object: 16, Length: 3},
			}}}, nil)
		}
		q, from := b.Growing(20 * sec)
		if (q != nil) != c.found || q != nil && (q.Object != 8 || q.Name != "@jobs" || c.from != 0 && from != c.from) {
			t.Errorf("%s: %+v from %d", c.name, q, from)
		}
	}
}
