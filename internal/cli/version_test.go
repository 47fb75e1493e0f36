package cli

import (
	"runtime/debug"
	"testing"
)

// TestSourceOf: if the build information has a commit, sourceOf names the commit and its day. If go install built ddtop
// from a tag, it names the version. For other builds it returns nothing.
func TestSourceOf(t *testing.T) {
	vcs := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: "1a2b3c4d5e6f7a8b9c0d1a2b3c4d5e6f7a8b9c0d"},
			{Key: "vcs.time", Value: "2026-11-26T23:30:00-02:00"}, {Key: "vcs.modified", Value: modified}}
	}
	for _, c := range []struct {
		how, version string
		settings     []debug.BuildSetting
		want         string
	}{
		{"a checkout", "(devel)", vcs("false"), "commit 1a2b3c4d5e6f, 2026-11-27"},
		{"a checkout at a tag", "v0.1.0", vcs("false"), "commit 1a2b3c4d5e6f, 2026-11-27"},
		{"a checkout with changes", "v0.0.0-20261127013000-1a2b3c4d5e6f+dirty", vcs("true"), "commit 1a2b3c4d5e6f, 2026-11-27, changed"},
		{"go install of a branch", "v0.1.1-0.20261125010203-0123456789ab", nil, "commit 0123456789ab, 2026-11-25"},
		{"go install of a tag", "v0.1.0", nil, "module v0.1.0"},
		{"a folder without git", "(devel)", nil, ""},
		{"an old Go", "", nil, ""},
	} {
		info := &debug.BuildInfo{Settings: c.settings}
		info.Main.Version = c.version
		if got := sourceOf(info); got != c.want {
			t.Errorf("%s: %q, want %q", c.how, got, c.want)
		}
	}
}
