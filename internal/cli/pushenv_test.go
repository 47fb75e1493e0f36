package cli

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOpenKeysAreSaid: if other users can read the file with the keys of `ddtop push`'s destinations, ddtop warns, and
// says how to fix this. The warning contains no key.
func TestOpenKeysAreSaid(t *testing.T) {
	path := filepath.Join(t.TempDir(), "push.env")
	t.Setenv(envFileVariable, path)
	said := func() string {
		var b bytes.Buffer
		warnOfOpenKeys(slog.New(slog.NewTextHandler(&b, nil)))
		return b.String()
	}
	if text := said(); text != "" {
		t.Errorf("of no file: %s", text)
	}
	if err := os.WriteFile(path, []byte("DD_API_KEY=zq\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[os.FileMode]bool{0o600: false, 0o400: false, 0o700: false, 0o640: true, 0o644: true, 0o604: true} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if text := said(); (text != "") != want || want && !strings.Contains(text, "chmod 600 "+path) || strings.Contains(text, "zq") {
			t.Errorf("%v: %q", mode, text)
		}
	}
}

// TestPackagesMakeKeysPrivate: the systemd unit names the file for push's keys, and its comment shows a command that
// makes the file. With this command no other user can read the file.
func TestPackagesMakeKeysPrivate(t *testing.T) {
	unit, err := os.ReadFile("../../packaging/systemd/ddtop-push.service")
	if err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"install -D -m 0600 /dev/null " + envFile, "\nEnvironmentFile=" + envFile, "\nEnvironment=" + envFileVariable + "=" + envFile} {
		if !strings.Contains(string(unit), words) {
			t.Errorf("the unit lacks %q", words)
		}
	}
}
