package rubyvm

import (
	"path/filepath"
	"testing"
)

// TestCachePath passes build ids that contain paths. A build id comes from the target. It must not be able to lead to a
// path outside the cache.
func TestCachePath(t *testing.T) {
	for id, want := range map[string]string{"": "", "../../etc/passwd": "", "0123456789abcdef": filepath.Join("/c", "v2", "0123456789abcdef.json")} {
		if got := cachePath("/c", id); got != want {
			t.Errorf("%q: %q, want %q", id, got, want)
		}
	}
	if got := cachePath("", "0123456789abcdef"); got != "" {
		t.Errorf("without a folder: %q", got)
	}
	if _, err := readCached("", "3.4.0", "x86_64"); err == nil {
		t.Error("a table from nowhere")
	}
	if err := writeCached("", nil); err == nil {
		t.Error("a table to nowhere")
	}
}
