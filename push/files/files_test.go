package files

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/safefile"
	"github.com/ddtop/ddtop/push"
)

func folder(t *testing.T, rawURL string) *Folder {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	d, err := New(u)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func send(t *testing.T, d *Folder, title string, from time.Time, body string) {
	t.Helper()
	payload, err := d.Encode(&push.Period{Pprof: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	payload.PID, payload.Title, payload.From = 17, title, from
	if err := d.Send(t.Context(), &payload); err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out
}

func TestRotation(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "profiles")
	d := folder(t, "file://"+dir+"?max-age=3h&max-size=10B")
	now := time.Now()
	send(t, d, "old", now.Add(-4*time.Hour), "x")
	if got := names(t, dir); len(got) != 1 { // the newest file stays, whatever its age
		t.Fatalf("there is %v", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), make([]byte, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	send(t, d, "puma", now.Add(-2*time.Hour), "12345")
	send(t, d, "puma", now.Add(-1*time.Hour), "12345")
	// the same profile again, as ddtop sends it if the answer was lost
	send(t, d, "puma", now.Add(-1*time.Hour), "12345")
	want := []string{"notes.txt", "puma-17-" + now.Add(-2*time.Hour).UTC().Format(safefile.DateFormat) + ".pb.gz", "puma-17-" + now.Add(-1*time.Hour).UTC().Format(safefile.DateFormat) + ".pb.gz"}
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Errorf("there is %v, want %v", got, want)
	}
	d = folder(t, "file://"+dir+"?max-age=3h&max-size=10B") // as if ddtop was restarted
	left := filepath.Join(dir, ".puma-17-20261123T080000.000Z.pb.gz-0123abcd")
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(left, now, now.Add(-2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	send(t, d, "puma", now, "1")
	want = []string{"notes.txt", want[2], "puma-17-" + now.UTC().Format(safefile.DateFormat) + ".pb.gz"}
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Errorf("there is %v, want %v", got, want)
	}
}

// TestClockSetBack: if the clock was set back, older files seem to be from the future. They must be removed before
// newer files.
func TestClockSetBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "profiles")
	now := time.Now()
	d := folder(t, "file://"+dir+"?max-size=10B")
	send(t, d, "ahead", now.Add(20*24*time.Hour), "12345")
	send(t, d, "ahead", now.Add(10*24*time.Hour), "12345")
	send(t, d, "puma", now, "12345")
	send(t, d, "puma", now.Add(time.Second), "12345")
	for _, name := range names(t, dir) {
		if !strings.HasPrefix(name, "puma") {
			t.Errorf("there is %v", names(t, dir))
		}
	}
}

// TestHostileTitles: a program can choose its title, which is part of the file's name. Whatever the title is, ddtop
// writes no file outside of the folder.
func TestHostileTitles(t *testing.T) {
	dir := t.TempDir()
	d := folder(t, "file://"+dir)
	at := time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)
	for _, title := range []string{"../../etc/passwd", "a/b", "...", "", "\x1b[31mred", strings.Repeat("x", 300), "-rf"} {
		send(t, d, title, at, "x")
	}
	for _, name := range names(t, dir) {
		if !ours.MatchString(name) || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "-") {
			t.Errorf("there is %q", name)
		}
	}
}

func TestURLs(t *testing.T) {
	for _, text := range []string{"file://host/x", "file:x", "file:///x?max-age=0s", "file:///x?max-age=soon", "file:///x?max-size=0", "file:///x?size=1"} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := New(u); err == nil {
			t.Errorf("%s: %+v", text, d)
		}
	}
}

// TestFolderThatCantBeWritten: if a folder cannot be written to, the error is not final. ddtop retries, because a user
// may fix the folder.
func TestFolderThatCantBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "profiles")
	d := folder(t, "file://"+dir)
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := d.Send(t.Context(), &push.Payload{Title: "puma", Body: []byte("x")})
	if err == nil || errors.As(err, new(*push.RefusedError)) {
		t.Errorf("got %v", err)
	}
}
