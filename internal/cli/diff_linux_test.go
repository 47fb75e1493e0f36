package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDiff: `ddtop diff` compares a recording with a profile of this recording, and refuses files that cannot be
// compared. `ddtop diff` and `ddtop report` never overwrite a file that they read.
func TestDiff(t *testing.T) {
	t.Parallel()
	recorded, folder := valuesFile(t), t.TempDir()
	profile := filepath.Join(folder, "x.pb.gz")
	run(t, "report", recorded, "-o", profile).want(t, 0)
	text := run(t, "diff", recorded, profile)
	text.want(t, 0)
	if !strings.Contains(text.out, "A  ruby  pid 42, 2.99 s") || !strings.Contains(text.out, "1 row that differs less") || strings.Contains(text.out, "Kept#kept") {
		t.Errorf("a recording and its profile:\n%s", text.out)
	}
	folded := filepath.Join(folder, "d.folded")
	run(t, "diff", profile, recorded, "--metric", "gvl-wait", "-o", folded).want(t, 0)
	if got := string(readAll(t, folded)); !strings.HasPrefix(got, "Kept#kept;[waiting] ") || len(strings.Fields(got)) != 3 || strings.Fields(got)[1] != strings.Fields(got)[2] {
		t.Errorf("%q", got)
	}
	redacted := run(t, "diff", "--redact", recorded, recorded)
	redacted.want(t, 0)
	run(t, "diff", "--redact", recorded, profile).want(t, 2, "can't be redacted")
	damaged := filepath.Join(folder, "damaged")
	if err := os.WriteFile(damaged, []byte("\x1f\x8bxxxx"), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "diff", recorded, damaged).want(t, 1, "damaged profile")
	run(t, "diff", recorded, filepath.Join(folder, "missing")).want(t, 1, "no such file")
	before := readAll(t, profile)
	run(t, "diff", recorded, profile, "-o", profile).want(t, 2, "would write over the file that is read")
	if !bytes.Equal(readAll(t, profile), before) {
		t.Error("a profile was written over with its comparison")
	}
	own := filepath.Join(folder, "own.ddtop")
	if err := os.WriteFile(own, readAll(t, recorded), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "report", own, "-o", own).want(t, 2, "would write over the file that is read")
	if !bytes.Equal(readAll(t, own), readAll(t, recorded)) {
		t.Error("a recording was written over with its report")
	}
}
