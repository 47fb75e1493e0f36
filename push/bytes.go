package push

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseBytes parses a number of bytes above 0: "500MB", "2GB", "64kB", "1000". A kB is 1000 bytes.
func ParseBytes(text string) (int64, error) {
	units := []struct {
		name  string
		bytes float64
	}{{"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"KB", 1e3}, {"B", 1}, {"", 1}}
	for _, u := range units {
		number, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if n *= u.bytes; err == nil && n >= 1 && n < 1e18 {
			return int64(n), nil
		}
		break
	}
	return 0, fmt.Errorf("%q is not a number of bytes such as 500MB or 2GB", text)
}
