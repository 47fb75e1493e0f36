package units

import (
	"math"
	"slices"
	"testing"
	"time"
)

func TestDuration(t *testing.T) {
	for ns, want := range map[int64][2]string{
		-5: {"–5 ns", "0 ms"}, 0: {"0 ns", "0 µs"}, 1_500: {"1.5 µs", "2 µs"}, 999_400: {"999 µs", "999 µs"},
		999_999: {"1.0 ms", "1 ms"}, 1_500_000: {"1.5 ms", "1.5 ms"}, 2_000_000: {"2.0 ms", "2 ms"}, 9_960_000: {"10 ms", "10 ms"},
		41_900_000: {"42 ms", "42 ms"}, 1_200_000_000: {"1.20 s", "1.2 s"}, 2_310_000_000: {"2.31 s", "2.31 s"},
		9_960_000_000: {"10.0 s", "10 s"}, 31_000_000_000: {"31.0 s", "31 s"}, 31_400_000_000: {"31.4 s", "31.4 s"},
		59_900_000_000: {"1m00s", "1 min"}, 150_000_000_000: {"2m30s", "2m30s"}, 300_000_000_000: {"5m00s", "5 min"},
		7_205_000_000_000: {"2h00m", "2 h"}, 8_000_000_000_000: {"2h13m", "2h13m"}, 273_600_000_000_000: {"3d04h", "76 h"},
	} {
		if got := [2]string{Duration(ns), ProseDuration(ns)}; got != want {
			t.Errorf("%d: %q, want %q", ns, got, want)
		}
	}
	for ns, want := range map[int64]string{
		-5: "-5 ns", 0: "0", 1_500: "2 µs", 999_499: "999 µs", 2_000_000: "2.0 ms", 2_310_000_000: "2.31 s", 31_400_000_000: "31.40 s",
		150_000_000_000: "150 s",
	} {
		if got := Weight(ns); got != want {
			t.Errorf("%d: %q, want %q", ns, got, want)
		}
	}
	if got := LongDuration(12 * time.Second); got != "12s" {
		t.Errorf("12 s: %q", got)
	}
}

func TestPercent(t *testing.T) {
	for share, want := range map[float64][2]string{
		-1: {"0 %", "0 %"}, 0: {"0 %", "0 %"}, 0.0004: {"<1 %", "<0.1 %"}, 0.004: {"<1 %", "0.4 %"}, 0.09: {"9 %", "9.0 %"},
		0.5: {"50 %", "50 %"}, 0.9951: {"99 %", "99 %"}, 0.9999: {"99 %", "99 %"}, 1: {"100 %", "100 %"}, 3.5: {"350 %", "350 %"},
	} {
		if got := [2]string{Percent(share), FinePercent(share)}; got != want {
			t.Errorf("%v: %q, want %q", share, got, want)
		}
	}
	if got := RoundPercent(0.004) + ", " + RoundPercent(0.9951); got != "0 %, 100 %" {
		t.Errorf("rounded: %q", got)
	}
	if got := WholePercent(math.NaN()); got != "–" {
		t.Errorf("NaN: %q", got)
	}
}

func TestNumbers(t *testing.T) {
	for _, c := range [][2]string{
		{FineBytes(999), "999 B"}, {FineBytes(1_600), "2 kB"}, {FineBytes(51_200_000), "51.2 MB"}, {Bytes(51_200_000), "51 MB"},
		{Bytes(5_120_000), "5.1 MB"}, {Bytes(2_000_000_000), "2.0 GB"},
		{Number(2.50, 2), "2.5"}, {Number(10, 0), "10"}, {Number(0.04, 1), "0"},
		{Count(0), "0"}, {Count(-999), "-999"}, {Count(-18204), "-18,204"}, {Count(1234567), "1,234,567"},
		{Plural(1, "thread waits", "threads wait"), "1 thread waits"}, {Plural(0, "frame", "frames"), "0 frames"},
	} {
		if c[0] != c[1] {
			t.Errorf("%q, want %q", c[0], c[1])
		}
	}
}

func TestDivide(t *testing.T) {
	for _, c := range []struct {
		n     int
		parts []int64
		whole int64
		want  []int
	}{
		{10, []int64{1, 1, 1}, 3, []int{4, 3, 3}},
		{10, []int64{0, 1, 1, 1}, 3, []int{0, 4, 3, 3}},
		{3, []int64{5, 90, 5}, 100, []int{0, 3, 0}},
		{10, []int64{1}, 4, []int{3}}, // exactly 2.5 columns; no other part can get the rest
		{10, []int64{-1, 0}, 0, []int{0, 0}},
		{4, nil, 1, nil},
		{200, []int64{math.MaxInt64}, math.MaxInt64, []int{200}},
		{3, []int64{5}, 2, []int{3}},
	} {
		got := Divide(c.n, c.parts, c.whole, nil)
		for i := range c.want {
			if len(got) != len(c.want) || got[i] != c.want[i] {
				t.Errorf("%d columns for %v of %d: %v, want %v", c.n, c.parts, c.whole, got, c.want)
				break
			}
		}
	}
	if got := Percents(333, 333, 334, 2); !slices.Equal(got, []int{33, 33, 34, 0}) {
		t.Errorf("percents %v", got)
	}
}
