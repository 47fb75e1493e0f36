package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFormatByName (readAll has unzipped pprof): a file holds what its name says, whatever the case of its letters; any other
// name has the usual format.
func TestFormatByName(t *testing.T) {
	t.Parallel()
	recorded := valuesFile(t)
	for name, begin := range map[string]string{
		"x.svg": "<?xml", "X.SVG": "<?xml", "x.pb.gz": "\n\x04\b", "x.pprof": "\n\x04\b", "x.folded": "main;", "x.speedscope.json": `{"$schema"`,
		"x.firefox.json": `{"meta"`, "x.chrome.json": `{"traceEvents"`, "x.jsonl": `{"type":"header"`, "x.html": "<!DOCTYPE html>", "callgrind.out.17": "# callgrind", "x.callgrind": "# callgrind", "x": "pid 42", "x.txt": "pid 42",
	} {
		file := filepath.Join(t.TempDir(), name)
		run(t, "report", recorded, "-o", file).want(t, 0)
		if text := string(readAll(t, file)); !strings.HasPrefix(text, begin) {
			t.Errorf("%s begins with %q, want %q", name, text[:min(len(text), 20)], begin)
		}
	}
	file := filepath.Join(t.TempDir(), "stat.json")
	run(t, "report", recorded, "--json", "-o", file).want(t, 0)
	if text := string(readAll(t, file)); !strings.HasPrefix(text, "{") {
		t.Errorf("stat.json: %q", text[:20])
	}
	refused := filepath.Join(t.TempDir(), "x.svg")
	run(t, "report", recorded, "--format", "pprof", "-o", refused).want(t, 2)
	if _, err := os.Lstat(refused); err == nil {
		t.Errorf("%s is there", refused)
	}
}
