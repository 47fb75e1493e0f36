package export

import (
	"github.com/ddtop/ddtop/internal/units"
)

// Share returns part/whole in percent as text, or "–" if the whole is zero.
func Share(part, whole int64) string {
	if whole <= 0 {
		return "–"
	}
	return units.Percent(float64(part) / float64(whole))
}
