package debuginfod

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ddtop/ddtop/attach/mapped"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/internal/safefile"
)

// stripped builds a library without symbols, and returns it with the content of its debug file.
func stripped(t *testing.T, flags ...string) (m *mapped.Module, debug []byte) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x.c"), []byte("static int hidden = 7; int shown(void) { return hidden++; }"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{
		append([]string{"gcc", "-g", "-shared", "-fPIC", "-Wl,--build-id", "-o", "whole.so", "x.c"}, flags...),
		{"objcopy", "--only-keep-debug", "whole.so", "x.debug"},
		{"objcopy", "--strip-all", "whole.so", "x.so"},
	} {
		c := exec.Command(rubytest.Program(t, command[0], "gcc libc6-dev binutils"), command[1:]...)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", command, err, out)
		}
	}
	m, err := mapped.OpenFile(filepath.Join(dir, "x.so"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	debug, err = os.ReadFile(filepath.Join(dir, "x.debug"))
	if err != nil {
		t.Fatal(err)
	}
	return m, debug
}

var short = limits{file: 1 << 20, bytes: 4 << 20, answer: 100 * time.Millisecond, fileTime: 200 * time.Millisecond, allTime: time.Minute}

func client(t *testing.T, l limits, folder string, urls ...string) *Client {
	t.Helper()
	c, err := newClient(strings.Join(urls, " "), folder, l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

var long = limits{file: 1 << 20, bytes: 4 << 20, answer: time.Minute, fileTime: time.Minute, allTime: time.Minute}

func serve(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL
}

func same(library string) string { return library }

// TestFileIsFetched: the first server does not have the debug file of a stripped library. It is fetched from the second
// server, through a redirect. The library then has its symbols. Another client finds the file in the cache.
func TestFileIsFetched(t *testing.T) {
	m, debug := stripped(t)
	var mu sync.Mutex
	var paths, referers []string
	end := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		paths, referers = append(paths, r.URL.RequestURI()), append(referers, r.Referer())
		w.Write(debug)
	})
	first := serve(t, http.NotFound)
	second := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, end+r.URL.Path, http.StatusFound)
	})
	folder := filepath.Join(t.TempDir(), "made")
	c := client(t, long, folder, "ima:enforcing", first, second+"/?key=secret")
	if f, pending := c.File(m.BuildID); f != nil || pending {
		t.Error("a file that was not wanted")
	}
	if !mapped.LacksSymbols(m) {
		t.Error("it lacks no symbols")
	}
	c.Want(m.BuildID, "x")
	c.Wait(t.Context(), time.Minute)
	if c.Missing(same) != "" || c.Came() != 1 {
		t.Fatalf("%q, %d came", c.Missing(same), c.Came())
	}
	f, _ := c.File(m.BuildID)
	if f == nil {
		t.Fatal("no file")
	}
	if err := mapped.UseDebugFile(m, f); err != nil {
		t.Fatal(err)
	}
	if _, ok := m.Symbol("hidden"); !ok || mapped.LacksSymbols(m) {
		t.Error("no symbols in it")
	}
	mu.Lock()
	defer mu.Unlock()
	if want := "/buildid/" + m.BuildID + "/debuginfo"; len(paths) != 1 || paths[0] != want || referers[0] != "" {
		t.Errorf("asked for %q from %q", paths, referers)
	}
	kept, err := os.ReadFile(filepath.Join(folder, m.BuildID, "debuginfo")) // the place where elfutils searches
	if err != nil || string(kept) != string(debug) {
		t.Errorf("%d bytes kept: %v", len(kept), err)
	}
	again := client(t, long, folder, "http://127.0.0.1:1")
	again.Want(m.BuildID, "x")
	again.Wait(t.Context(), time.Minute)
	if again.Missing(same) != "" {
		t.Error(again.Missing(same))
	}
}

// TestHostileServers: whatever a server sends, ddtop uses no wrong file, and leaves none in the cache. One line without
// secrets gives the reason.
func TestHostileServers(t *testing.T) {
	m, debug := stripped(t)
	_, other := stripped(t, "-DOTHER", "-Wl,--build-id=0x0123456789")
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		want   error
	}{
		"silent": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, errTime},
		"stops": {func(w http.ResponseWriter, r *http.Request) {
			w.Write(debug[:100])
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, errTime},
		"ends early": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9999")
			w.Write(debug[:100])
		}, errAnswer},
		"another one": {func(w http.ResponseWriter, _ *http.Request) { w.Write(other) }, errOther},
		"garbage":     {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>secret</html>") }, errGarbage},
		"nothing":     {func(http.ResponseWriter, *http.Request) {}, errGarbage},
		"says a lot": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(int64(8)<<30))
		}, errLarge},
		"sends a lot": {func(w http.ResponseWriter, _ *http.Request) {
			for _, err := w.Write(debug); err == nil; _, err = w.Write(make([]byte, 1<<16)) {
			}
		}, errLarge},
		"loop": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/secret"+r.URL.Path, http.StatusFound)
		}, errRedirect},
		"other scheme": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "file:///etc/secret", http.StatusFound)
		}, errRedirect},
		"no address": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://[secret")
			w.WriteHeader(302)
		}, errAnswer},
		"no HTTP": {func(w http.ResponseWriter, r *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			io.WriteString(conn, "secret "+r.RequestURI+"\r\n\r\n")
			conn.Close()
		}, errAnswer},
		"refuses": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "secret", http.StatusForbidden) }, fmt.Errorf("HTTP status 403")},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			host := strings.TrimPrefix(serve(t, test.answer), "http://")
			l := long
			if test.want == errTime {
				l = short
			}
			c := client(t, l, folder, "http://user:secret@"+host+"/secret?secret")
			c.Want(m.BuildID, "libx")
			c.Wait(t.Context(), time.Minute)
			want := fmt.Sprintf("no debug file for 1 of 1 files with C functions, as libx (build id %.12s): %s: %v", m.BuildID, host, test.want)
			if got := c.Missing(same); got != want {
				t.Errorf("%q, want %q", got, want)
			}
			if f, pending := c.File(m.BuildID); f != nil || pending || c.Came() != 0 {
				t.Error("it has a file")
			}
			if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v %v", left, err)
			}
		})
	}
}

// TestUnusualBuildIDs: ddtop requests no file whose build id has an unusual form, and none beyond the limit of files.
func TestUnusualBuildIDs(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "cache")
	c := client(t, short, folder, "http://127.0.0.1:1")
	for _, id := range []string{"", "abcd", "../../../../etc", "0123456z", strings.Repeat("ab", 65)} {
		c.Want(id, "x")
	}
	c.Wait(t.Context(), time.Minute)
	if got := c.Missing(same); !strings.HasPrefix(got, "no debug file for 5 of 5 ") || !strings.HasSuffix(got, errBuildID.Error()) {
		t.Error(got)
	}
	for i := range maxFiles {
		c.Want(fmt.Sprint(i), "x")
	}
	if got, want := c.Missing(same), fmt.Sprintf("no debug file for %d of %[1]d ", maxFiles+5); !strings.HasPrefix(got, want) {
		t.Error(got)
	}
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("the cache folder: %v", err)
	}
}

// TestFewAtOnce: ddtop fetches only maxAtOnce files at the same time, and the others wait. Wait returns after its time
// limit, and Close ends all fetches.
func TestFewAtOnce(t *testing.T) {
	asked := make(chan struct{}, 100)
	c := client(t, long, t.TempDir(), serve(t, func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	for i := range 10 {
		c.Want(fmt.Sprintf("0123456%d", i), "x")
	}
	for range maxAtOnce {
		<-asked
	}
	c.Wait(t.Context(), 50*time.Millisecond)
	if len(asked) > 0 {
		t.Error("more at once")
	}
	if _, pending := c.File("01234567"); !pending || !strings.Contains(c.Missing(same), "10 of 10") || !strings.HasSuffix(c.Missing(same), errPending.Error()) {
		t.Errorf("pending %v, %s", pending, c.Missing(same))
	}
	c.Wait(t.Context(), time.Hour) // returns at once, because the first Wait has set the time limit
	c.Close()
	if _, pending := c.File("01234567"); pending {
		t.Error("it is pending after Close")
	}
}

// TestBudget: if the total time or the total number of bytes for fetching is used up, ddtop sends no further request.
func TestBudget(t *testing.T) {
	m, debug := stripped(t)
	for name, l := range map[string]limits{
		"time":  {file: 1 << 20, bytes: 1 << 20, answer: time.Minute, fileTime: time.Minute},
		"bytes": {file: 1 << 20, bytes: int64(len(debug)), answer: time.Minute, fileTime: time.Minute, allTime: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			c := client(t, l, t.TempDir(), serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Write(debug) }))
			for _, id := range []string{m.BuildID, "01234567"} {
				c.Want(id, "x")
				c.Wait(t.Context(), time.Minute)
			}
			if got := c.Missing(same); !strings.HasSuffix(got, errBudget.Error()) {
				t.Error(got)
			}
		})
	}
}

// TestStrangersFolder: if another user may write to the cache folder, that user could replace files. So ddtop uses no
// such folder, and sends no request.
func TestStrangersFolder(t *testing.T) {
	folder := t.TempDir()
	if err := os.Chmod(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	c := client(t, long, folder, serve(t, func(http.ResponseWriter, *http.Request) { t.Error("asked") }))
	c.Want("01234567", "x")
	c.Wait(t.Context(), time.Minute)
	if got := c.Missing(same); !strings.Contains(got, "somebody else could have written it") {
		t.Error(got)
	}
}

// TestURLs: only http and https URLs are accepted as servers, and errors do not contain the URLs.
func TestURLs(t *testing.T) {
	for _, urls := range []string{"", " ", "ima:ignore", "file:///secret", "https://", "http://a ftp://user:secret@b", "http://%secret",
		"secret", strings.Repeat("http://secret ", maxServers+1)} {
		if _, err := newClient(urls, "", long); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", urls, err)
		}
	}
}

// TestNoDowngrade: a redirect from https to http is not followed.
func TestNoDowngrade(t *testing.T) {
	at := func(url string) *http.Request { return httptest.NewRequest(http.MethodGet, url, nil) }
	var n named
	if n.follow(at("http://a"), []*http.Request{at("https://a")}) == nil {
		t.Error("from https to http")
	}
	if err := n.follow(at("https://b"), []*http.Request{at("http://a")}); err != nil {
		t.Error(err)
	}
}

// TestRedirectIntoTheNetwork: a server cannot redirect ddtop to a host inside ddtop's own network, by address or by
// name. ddtop connects to such a host only if the user has named it as a server or a proxy.
func TestRedirectIntoTheNetwork(t *testing.T) {
	m, debug := stripped(t)
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan string, 100)
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Host
		w.Write(debug)
	})
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: answer}}
	s.Start()
	t.Cleanup(s.Close)
	port := s.URL[strings.LastIndexByte(s.URL, ':'):]
	try := func(to string, more ...string) string {
		t.Helper()
		first := serve(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, to+r.URL.Path, http.StatusFound)
		})
		c := client(t, long, t.TempDir(), append([]string{first}, more...)...)
		c.Want(m.BuildID, "x")
		c.Wait(t.Context(), time.Minute)
		return c.Missing(same)
	}
	for _, to := range []string{s.URL, "http://localhost" + port, "http://[::ffff:127.0.0.2]" + port, "http://10.0.0.1",
		"http://0.0.0.0" + port, "http://169.254.169.254", "http://100.100.100.200", "http://[fe80::1]", "http://[fd00:ec2::254]",
		"http://[::1]"} {
		if got := try(to); !strings.HasSuffix(got, errInside.Error()) {
			t.Errorf("%s: %q", to, got)
		}
	}
	if len(asked) > 0 {
		t.Errorf("%s was asked", <-asked)
	}
	if got := try(s.URL, "http://127.0.0.2:1"); got != "" || len(asked) != 1 {
		t.Errorf("to a named host: %q, asked %d times", got, len(asked))
	}
	if err := outside("93.184.216.34:443"); err != nil {
		t.Error(err)
	}
	proxy := named{hosts: map[string]bool{"proxy": true}}
	if err := proxy.follow(httptest.NewRequest(http.MethodGet, "http://169.254.169.254", nil),
		[]*http.Request{httptest.NewRequest(http.MethodGet, "http://a", nil)}); err == nil {
		t.Error("a proxy is asked for an address within the network")
	}
}

// TestDiskStaysUsable: ddtop does not fill the disk of the cache. A file takes at most a part of the free space.
// Incomplete files of a killed ddtop are removed, but not while another ddtop may be fetching them.
func TestDiskStaysUsable(t *testing.T) {
	m, debug := stripped(t)
	cache := t.TempDir()
	folder := filepath.Join(cache, m.BuildID)
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	const old, young, other = ".debuginfo-00000001", ".debuginfo-00000002", ".debuginfo-other"
	for _, name := range []string{old, young, other} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("part"), 0o600); err != nil {
			t.Fatal(err)
		}
		if at := time.Now().Add(-2 * allTime); name != young {
			if err := os.Chtimes(filepath.Join(folder, name), at, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Write(debug) })
	for _, spare := range []int64{-1, 0} {
		c := client(t, long, cache, url)
		c.free = func(*os.Root) int64 { return 2 * maxAtOnce * (int64(len(debug)) + spare) }
		c.Want(m.BuildID, "x")
		c.Wait(t.Context(), time.Minute)
		if got := c.Missing(same); spare < 0 != strings.HasSuffix(got, errSpace.Error()) || spare == 0 && got != "" {
			t.Errorf("%d bytes more than needed: %q", spare, got)
		}
	}
	var names []string
	left, err := os.ReadDir(folder)
	for _, e := range left {
		names = append(names, e.Name())
	}
	if want := []string{young, other, "debuginfo"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("%q is left, not %q: %v", names, want, err)
	}
	root, err := os.OpenRoot(cache)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if n := safefile.Free(root); n <= 0 {
		t.Errorf("%d bytes are free", n)
	}
}
