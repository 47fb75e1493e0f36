package export

import (
	"github.com/ddtop/ddtop/internal/units"
)

// Share returns a part of a whole in percent, or "–" if the whole is zero.
func Share(part, whole int64) string {
	if whole <= 0 {
		return "–"
	}
	return units.Percent(float64(part) / float64(whole))
}
