package export

import (
	"github.com/ddtop/ddtop/internal/units"
)

func Share(part, whole int64) string {
	if whole <= 0 {
		return "–"
	}
	return units.Percent(float64(part) / float64(whole))
}
