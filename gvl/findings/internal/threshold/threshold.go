// Package threshold converts the thresholds of rules to text and from text.
package threshold

import (
	"fmt"

	"github.com/ddtop/ddtop/internal/units"
)

// Unit says how a threshold is written: as a number, a share or a time.
type Unit uint8

// The units of thresholds are: a number, a share of 1, a time in ns.
const (
	Number Unit = iota
	Share
	Time
)

// MaxTime is the largest value, in ns, of a threshold that is a time: a day.
const MaxTime = 86400e9

// Format writes a threshold.
func (u Unit) Format(v float64) string {
	switch u {
	case Share:
		return units.RoundPercent(v)
	case Time:
		return units.ProseDuration(int64(v))
	}
	return units.Number(v, 1)
}

// Parse reads a threshold, which must be above 0.
func (u Unit) Parse(text string) (float64, error) {
	list, most, like := units.Numbers, 1e9, "3 or 1.5"
	switch u {
	case Share:
		list, most, like = units.Shares, 1, "60% or 0.6"
	case Time:
		list, most, like = units.Times, MaxTime, "80ms or 1.5s"
	}
	if v, ok := units.Parse(text, list); ok && v <= most {
		return v, nil
	}
	return 0, fmt.Errorf("%q is not a value such as %s", text, like)
}
