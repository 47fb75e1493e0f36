// Package places finds where a Ruby release keeps the data that ddtop reads. It fills in the fields of structs from a
// table of package layout. Each field has a tag that names the data in Ruby's own words.
package places

import (
	"fmt"
	"strconv"
	"strings"
)

// Release is a Ruby release as numbers. Ruby's development branch has the numbers of its future release.
type Release struct {
	Major, Minor, Patch int
}

// ParseRelease parses a version such as "3.4.11". It ignores all text after the third number ("4.1.0dev",
// "3.4.0preview1").
func ParseRelease(version string) (Release, error) {
	parts := strings.SplitN(strings.TrimSpace(version), ".", 3)
	if len(parts) != 3 {
		return Release{}, fmt.Errorf("%q is not a Ruby release (major.minor.patch)", version)
	}
	digits := strings.IndexFunc(parts[2], func(r rune) bool { return r < '0' || r > '9' })
	if digits >= 0 {
		parts[2] = parts[2][:digits]
	}
	var n [3]int
	for i, p := range parts {
		v, err := strconv.ParseUint(p, 10, 16)
		if err != nil {
			return Release{}, fmt.Errorf("%q is not a Ruby release (major.minor.patch)", version)
		}
		n[i] = int(v)
	}
	return Release{n[0], n[1], n[2]}, nil
}

// AtLeast reports whether r is major.minor or later.
func (r Release) AtLeast(major, minor int) bool {
	return r.Major > major || r.Major == major && r.Minor >= minor
}

// String returns the release as major.minor.patch.
func (r Release) String() string { return fmt.Sprintf("%d.%d.%d", r.Major, r.Minor, r.Patch) }
