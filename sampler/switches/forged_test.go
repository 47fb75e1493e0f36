package switches

import (
	"math/rand/v2"
	"testing"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/exact"
)

// TestForgedWords: a process with 40 threads writes false words into its own memory, which the kernel copies into the
// records. ddtop still follows at most 40 threads, and reports no more changes than true records can make. The times of
// all changes stay right, because they come from the kernel.
func TestForgedWords(t *testing.T) {
	const threads, most = 40, 12
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		now, last, changes := int64(1e9), int64(0), 0
		m := NewMachine(exact.NewMachine(func(c *exact.Change) {
			changes++
			if c.AtNS < last || c.AtNS > now {
				t.Fatalf("a change at %d, after %d and before %d", c.AtNS, last, now)
			}
			last = c.AtNS
		}))
		word := func() uint64 {
			switch rng.IntN(4) {
			case 0:
				return rng.Uint64()
			case 1:
				return 0
			}
			return 0x1000 * rng.Uint64N(threads)
		}
		records := 0
		for range 5000 {
			from := now
			now += rng.Int64N(1e6)
			r := Record{
				Kind: Kind(1 + rng.IntN(3)), TID: int32(1 + rng.IntN(threads)), InNS: from, NS: now, WokenNS: from - rng.Int64N(1e6), GaveNS: from + rng.Int64N(1e6),
				Thread: word(), Owner: word(), Last: word(), WakerOwner: word(), CFP: word(), PC: word(), SP: word(), Mutex: word(), FD: int32(rng.Uint32()),
				Queued: rng.IntN(2) == 0, Linked: rng.IntN(2) == 0, Region: rng.IntN(2) == 0, Runnable: rng.IntN(2) == 0, Collects: rng.IntN(2) == 0,
				Asleep: rng.IntN(2) == 0, Syscall: rng.Int64N(400) - 1, Name: "read", Args: [3]uint64{word(), word(), word()}, Before33: seed%2 == 0,
				Status: sampler.Status(rng.IntN(256)),
			}
			for i := range r.Joined {
				r.Joined[i] = word()
			}
			m.Feed(&r)
			records++
			if n := len(m.pending); n > most*records {
				t.Fatalf("%d changes wait after %d records", n, records)
			}
			if rng.IntN(50) == 0 {
				m.Advance(now)
				records = 0
			}
		}
		m.Advance(now)
		if len(m.threads) > threads || len(m.joins) > threads || len(m.pending) != 0 || changes == 0 {
			t.Errorf("%d threads, %d that were put into the queue, %d changes wait, %d were told", len(m.threads), len(m.joins), len(m.pending), changes)
		}
		if len(m.of) > 2*threads {
			t.Errorf("%d rb_thread_ts of %d threads", len(m.of), threads)
		}
	}
}
