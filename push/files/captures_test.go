package files

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/push"
)

const captureFile = "puma-7-20260504T120000.000Z-deadlock.ddtop"

func capturePayload(name string) *push.Payload {
	return &push.Payload{Header: map[string]string{FileHeader: name}, Body: []byte("recording"), From: time.Now()}
}

// TestCapturesInAFolder: a capture is stored in the folder under its own name. The folder refuses a payload whose name
// does not have the form of a capture's name. If the folder is full, the oldest captures are removed.
func TestCapturesInAFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "captures")
	d, err := NewCaptures("file://"+dir+"?max-size=20", "", "")
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Place(captureFile); got != filepath.Join(dir, captureFile) {
		t.Errorf("its place is %s", got)
	}
	for _, name := range []string{"", "x", "../" + captureFile, "/etc/passwd", captureFile + "/x", strings.ReplaceAll(captureFile, "ddtop", "sh")} {
		var refused *push.RefusedError
		if err := d.Send(t.Context(), capturePayload(name)); !errors.As(err, &refused) {
			t.Errorf("%q: %v", name, err)
		}
	}
	names := []string{captureFile, strings.ReplaceAll(captureFile, ".ddtop", ".html"), strings.ReplaceAll(captureFile, "T12", "T13")}
	for _, name := range names {
		if err := d.Send(t.Context(), capturePayload(name)); err != nil {
			t.Fatal(err)
		}
	}
	list, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(list) != 2 || filepath.Base(list[0]) != names[1] || filepath.Base(list[1]) != names[2] {
		t.Errorf("%q, %v", list, err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, names[2])); err != nil || string(b) != "recording" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestCapturesAtAURL: ddtop sends captures by PUT to URLs below the given URL, with the query and the headers. Errors
// contain neither query nor headers, because they are secrets. ddtop follows no redirect.
func TestCapturesAtAURL(t *testing.T) {
	var got []string
	redirect, wrong := false, false
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got = append(got, r.Method+" "+r.URL.String()+" "+r.Header.Get("X-Key")+" "+string(b))
		if redirect {
			http.Redirect(w, r, r.URL.String()+"&again=1", http.StatusTemporaryRedirect)
		} else if wrong {
			// Like S3, the server repeats the request's signature in its error.
			http.Error(w, "<SignatureProvided>"+r.URL.Query().Get("sig")+"</SignatureProvided>", http.StatusForbidden)
		}
	}))
	defer s.Close()
	d, err := NewCaptures(s.URL+"/a%20b/?sig=hunter2", "x-key=hunter3", "0.1")
	if err != nil {
		t.Fatal(err)
	}
	if text := d.String() + d.Place(captureFile); strings.Contains(text, "hunter") || d.Place(captureFile) != s.URL+"/a%20b/"+captureFile {
		t.Errorf("its place is %s", text)
	}
	if err := d.Send(t.Context(), capturePayload(captureFile)); err != nil {
		t.Fatal(err)
	}
	redirect = true
	err = d.Send(t.Context(), capturePayload(captureFile))
	var refused *push.RefusedError
	if !errors.As(err, &refused) || strings.Contains(err.Error(), "hunter") {
		t.Errorf("a redirect: %v", err)
	}
	redirect, wrong = false, true
	if err = d.Send(t.Context(), capturePayload(captureFile)); err == nil || strings.Contains(err.Error(), "hunter") {
		t.Errorf("a wrong signature: %v", err)
	}
	if want := "PUT /a%20b/" + captureFile + "?sig=hunter2 hunter3 recording"; len(got) != 3 || got[0] != want || got[1] != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, text := range []string{"ftp://x/", "https:///x", "https://me:hunter2@x/"} {
		if _, err := NewCaptures(text, "", ""); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
