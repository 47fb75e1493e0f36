package pace

import "testing"

// TestLoadAroundTheLimit: if a process's thread switches are near the limit, ddtop must not start and stop following
// them again and again. This must be true however their rate rises and falls. If the threads of a process switch rarely
// again, ddtop must follow them again within two minutes.
func TestLoadAroundTheLimit(t *testing.T) {
	const second, limit = int64(1e9), 20_000 // switches per second; recording this many costs 3 % of a CPU (recordNS)
	for _, c := range []struct {
		name string
		load func(s int64) float64 // the number of switches in second s
		// most limits how often ddtop may stop following the process in an hour. followed is the least number of
		// seconds of this hour in which it follows the process.
		most, followed int64
	}{
		{"below", func(int64) float64 { return 0.95 * limit }, 0, 3600},
		{"above", func(int64) float64 { return 1.2 * limit }, 1, 0},
		{"a little below and above, in turns of 5 s", func(s int64) float64 { return limit * (0.9 + 0.3*float64(s/5%2)) }, 1, 0},
		{"far below and above, in turns of 5 s", func(s int64) float64 { return limit * (0.1 + 2.9*float64(s/5%2)) }, 1, 0},
		{"in turns of 20 s", func(s int64) float64 { return limit * (0.1 + 2.9*float64(s/20%2)) }, 1, 0},
		{"in turns of 60 s", func(s int64) float64 { return limit * (0.1 + 2.9*float64(s/60%2)) }, 3, 0},
		{"in turns of 10 minutes", func(s int64) float64 { return limit * (0.1 + 2.9*float64(s/600%2)) }, 3, 1200},
		{"a peak of a minute", func(s int64) float64 {
			if s > 100 && s < 160 {
				return 3 * limit
			}
			return 100
		}, 1, 3400},
	} {
		var (
			l             RecordLoad
			own           OwnLoad
			again         Again
			now, switches int64
			ends, on      int64
		)
		following, began := true, int64(0)
		for s := range int64(3600) {
			now += second
			n := uint64(c.load(s))
			switches += int64(n)
			if following {
				on++
				if l.Add(&own, now, second, n, 0.03); l.Over(&own, 0.03) {
					following = false
					ends++
					l.Leave(&own)
					again.Ended(now, now-began)
				}
			} else if again.Is(now, switches, l.Room(0.03)) {
				following, began = true, now
			}
		}
		if ends > c.most || on < c.followed {
			t.Errorf("%s: let go of %d times in an hour, followed for %d s of it", c.name, ends, on)
		}
	}
}
