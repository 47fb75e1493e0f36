package units

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A Suffix is a unit that a user may type after a number.
type Suffix struct {
	name  string
	scale float64
}

// The units that a user may type after a number. Parse tries them in this order. So if one unit ends with another one,
// such as "ms" with "s", the longer one comes first. The last unit of a list may be "".
var (
	// Times are in ns: "200ms", "1.5s". A bare number is in seconds.
	Times = []Suffix{{"ms", 1e6}, {"µs", 1e3}, {"us", 1e3}, {"s", 1e9}, {"m", 60e9}, {"", 1e9}}
	// Shares are parts of 1: "60%", "0.6".
	Shares = []Suffix{{"%", .01}, {"", 1}}
	// Sizes are in bytes: "500MB". A kB is 1000 bytes.
	Sizes = []Suffix{{"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"KB", 1e3}, {"B", 1}, {"", 1}}
	// Numbers have no unit.
	Numbers = []Suffix{{"", 1}}
)

// Parse returns the number in a text, multiplied by the scale of the unit after it. list has the allowed units. ok is
// false if the text is not a number above zero.
func Parse(text string, list []Suffix) (v float64, ok bool) {
	for _, x := range list {
		if number, found := strings.CutSuffix(text, x.name); found {
			v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
			v *= x.scale
			return v, err == nil && !math.IsNaN(v) && v > 0
		}
	}
	return 0, false
}

// ParseBytes parses a size that must be above zero, and returns it in bytes.
func ParseBytes(text string) (int64, error) {
	if n, ok := Parse(text, Sizes); ok && n >= 1 && n < 1e18 {
		return int64(n), nil
	}
	return 0, fmt.Errorf("%q is not a number of bytes such as 500MB or 2GB", text)
}

// maxWord limits the length of the words that Distance compares, in bytes. The work grows with the square of the
// length.
const maxWord = 64

// Distance returns how many letters must be inserted, removed or replaced to turn one word into the other
// (Levenshtein). If a word is longer than maxWord, it returns maxWord.
func Distance(a, b string) int {
	if len(a) > maxWord || len(b) > maxWord {
		return maxWord
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			before, row[j+1] = row[j+1], min(before+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
