package cli_test

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// datadogIntake imitates Datadog's server or its agent. It keeps the profiles that it gets.
type datadogIntake struct {
	mu  sync.Mutex
	got []datadogUpload
	// The function answer may answer a request instead of ServeHTTP, and then returns true. If answer is nil or returns
	// false, ServeHTTP accepts the profile.
	answer func(http.ResponseWriter, *http.Request) bool
}

// datadogUpload is one profile that arrived.
type datadogUpload struct {
	path, key string
	event     struct {
		Start          string           `json:"start"`
		End            string           `json:"end"`
		Tags           string           `json:"tags_profiler"`
		EndpointCounts map[string]int64 `json:"endpoint_counts"`
	}
	profile *profile.Profile
}

// ServeHTTP accepts a profile and keeps it.
func (d *datadogIntake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	answer := d.answer
	d.mu.Unlock()
	if answer != nil && answer(w, r) {
		return
	}
	u := datadogUpload{path: r.URL.Path, key: r.Header.Get("DD-API-KEY")}
	if err := u.read(r); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.got = append(d.got, u)
}

func (u *datadogUpload) read(r *http.Request) error {
	parts, err := r.MultipartReader()
	if err != nil {
		return err
	}
	for {
		var part *multipart.Part
		if part, err = parts.NextPart(); err != nil {
			break
		}
		b, err := io.ReadAll(part)
		if err != nil {
			return err
		}
		switch part.FileName() {
		case "event.json":
			err = json.Unmarshal(b, &u.event)
		case "profile.pprof":
			u.profile, err = profile.ParseData(b)
		}
		if err != nil {
			return err
		}
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// answers sets the function answer.
func (d *datadogIntake) answers(f func(http.ResponseWriter, *http.Request) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answer = f
}

func (d *datadogIntake) uploads() []datadogUpload {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.got[:len(d.got):len(d.got)]
}

// tag returns the value of a tag.
func (u *datadogUpload) tag(key string) string {
	for one := range strings.SplitSeq(u.event.Tags, ",") {
		if value, ok := strings.CutPrefix(one, key+":"); ok {
			return value
		}
	}
	return ""
}

// TestPushAgentless: without an agent, `ddtop push` sends profiles directly to Datadog over TLS. The key comes from
// ddtop's environment, and must not appear in a log, a spool or a profile. If a server's certificate cannot be
// verified, push sends nothing to this server.
func TestPushAgentless(t *testing.T) {
	t.Parallel()
	ruby := rubytest.One(t).Start(t, `$stdout.sync = true; puts "up"; sleep`, rubytest.Options{Env: []string{"DD_API_KEY=of-the-process", "DD_SERVICE=shop", "DD_TAGS=team:blue,token:abcdef,process_id:1,host:evil-claim,container_id:evil-claim",
		"OTEL_RESOURCE_ATTRIBUTES=host.name=evil-claim,process.pid=1"}})
	ruby.Expect(t, "up")
	in := new(datadogIntake)
	s := httptest.NewUnstartedServer(in)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // the server reports that its certificate was refused
	s.StartTLS()
	t.Cleanup(s.Close)
	dir := t.TempDir()
	roots := filepath.Join(dir, "roots.pem")
	if err := os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	const key = "0123456789abcdef0123456789abcdef"
	to := "datadog+" + s.URL
	spool := filepath.Join(dir, "spool")
	args := []string{"-p", strconv.Itoa(ruby.PID), "--to", to, "--period", "1s", "--spool", spool}
	p := startPushWith(t, []string{"DD_API_KEY=" + key + "\n"}, args...) // a key from a file ends with a line break
	p.await(t, "a refusal of its certificate", func() bool { return strings.Contains(p.log.String(), "certificate") })
	p.end(t)
	if n := len(in.uploads()); n > 0 {
		t.Fatalf("%d profiles were sent to a server that nobody vouches for", n)
	}
	if text := contentOf(t, spool); strings.Contains(text, key) || !strings.Contains(text, "profile.pprof") {
		t.Errorf("the spool has the key, or nothing: %d bytes", len(text))
	}
	said := p.log.String()
	p = startPushWith(t, []string{"DD_API_KEY=" + key, "SSL_CERT_FILE=" + roots}, args...)
	p.await(t, "profiles of both runs", func() bool { return len(in.uploads()) >= 3 })
	p.end(t)
	for i, u := range in.uploads() {
		if u.path != "/api/v2/profile" || u.key != key || u.tag("service") != "shop" || u.tag("team") != "blue" || u.tag("process_id") != strconv.Itoa(ruby.PID) || u.profile == nil {
			t.Errorf("profile %d: %s with the key %q, tags %s", i, u.path, u.key, u.event.Tags)
		}
		if strings.Contains(u.event.Tags, "of-the-process") || strings.Contains(u.event.Tags, "abcdef,") || strings.Contains(u.event.Tags, "token") ||
			strings.Contains(u.event.Tags, "evil-claim") {
			t.Errorf("profile %d: tags %s", i, u.event.Tags)
		}
	}
	if said += p.log.String(); strings.Contains(said, key) || strings.Contains(said, "level=ERROR") {
		t.Errorf("it said:\n%s", said)
	}
	// Without a key, `ddtop push` does not start.
	p = startPushWith(t, nil, args...)
	if err := p.cmd.Wait(); err == nil || !strings.Contains(p.log.String(), "DD_API_KEY") {
		t.Errorf("without a key: %v, %s", err, p.log)
	}
}

// contentOf returns the content of all files in a folder and in the folders below it.
func contentOf(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		all.Write(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
