package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFormatByName: the ending of an output file's name chooses its format, in upper or lower case. Without an ending,
// or with .txt, the format is text. ddtop refuses the ending of a format that it does not write. (readAll unzips
// pprof.)
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
	for _, name := range []string{"x.perfetto", "x.speedscope", "x.jfr"} {
		for _, command := range []string{"report", "diff"} {
			file, args := filepath.Join(t.TempDir(), name), []string{command, recorded}
			if command == "diff" {
				args = append(args, recorded)
			}
			got := run(t, append(args, "-o", file)...)
			got.want(t, 2)
			if _, err := os.Lstat(file); err == nil || !strings.Contains(got.err, "stands for no format") {
				t.Errorf("%s -o %s: %s", command, name, got.err)
			}
		}
	}
	run(t, "report", recorded, "--format", "chrome", "-o", filepath.Join(t.TempDir(), "x.perfetto")).want(t, 0)
}

// TestEndpointThatWasNotSeen: if --endpoint matches no request and no job, `ddtop report` fails instead of writing an
// empty report. The error lists similar routes and classes.
func TestEndpointThatWasNotSeen(t *testing.T) {
	t.Parallel()
	recorded := valuesFile(t)
	for _, args := range [][]string{{"report", recorded, "--json"}, {"report", recorded, "--format", "collapsed"}} {
		got := run(t, append(args, "--endpoint", "kept#list")...)
		if got.code == 0 || got.out != "" || !strings.Contains(got.err, "--endpoint kept#list matches none of the 2 routes and classes that were seen; nearest: GET kept#index, KeptJob") {
			t.Errorf("%v: exit code %d, %d bytes, %s", args, got.code, len(got.out), got.err)
		}
	}
}
