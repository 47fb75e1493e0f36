package archtest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// installScript is the path of the script with which users install ddtop.
var installScript, _ = filepath.Abs(filepath.Join("..", "..", "packaging", "install.sh"))

// fakeRelease returns the files of a release as install.sh expects them, by name. In place of the binary ddtop, it has
// a shell script.
func fakeRelease(t *testing.T, version, ddtop string, pages ...string) map[string]string {
	t.Helper()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	w := tar.NewWriter(z)
	files := [][2]string{{"ddtop", "#!/bin/sh\n" + ddtop + "\n"}, {"completions/ddtop.bash", "b"}, {"completions/_ddtop", "z"}, {"completions/ddtop.fish", "f"}}
	for _, p := range pages {
		files = append(files, [2]string{"man/" + p + ".1.gz", p})
	}
	for _, f := range files {
		if err := w.WriteHeader(&tar.Header{Name: f[0], Mode: 0o755, Size: int64(len(f[1]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(f[1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("ddtop_%s_linux_%s.tar.gz", version, runtime.GOARCH)
	return map[string]string{name: packed.String(), "checksums.txt": fmt.Sprintf("%x  %s\n", sha256.Sum256(packed.Bytes()), name)}
}

// serve serves files on loopback. To imitate a broken connection, it sends only the first half of the file named cut,
// although it announces the whole length.
func serve(t *testing.T, files map[string]string, cut string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		text, ok := files[name]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(text)))
		if name == cut {
			text = text[:len(text)/2]
		}
		_, _ = w.Write([]byte(text)) // no error check: the script's output shows what it got
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// below lists the files and folders below a folder, with permissions and contents. A test compares two such lists to
// see whether something has changed.
func below(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		var text []byte
		if !d.IsDir() {
			if text, err = os.ReadFile(path); err != nil {
				return err
			}
		}
		_, err = fmt.Fprintf(&b, "%s %s %q\n", path[len(dir):], info.Mode(), text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// installer runs install.sh with one kind of shell. Each installer has its own home and its own folder for temporary
// files.
type installer struct {
	shell, prefix, tmp string
	path               string // put before the machine's PATH
	script             string // run instead of install.sh, from standard input
}

func newInstaller(t *testing.T) installer {
	return installer{shell: "sh", prefix: filepath.Join(t.TempDir(), "a folder's"), tmp: t.TempDir()}
}

func (i installer) run(args ...string) (string, error) {
	cmd := exec.Command(i.shell, append([]string{installScript, "--prefix", i.prefix}, args...)...)
	if i.script != "" {
		cmd = exec.Command(i.shell, append([]string{"-s", "--", "--prefix", i.prefix}, args...)...)
		cmd.Stdin = strings.NewReader(i.script)
	}
	cmd.Dir = i.tmp
	cmd.Env = []string{"PATH=" + i.path + os.Getenv("PATH"), "HOME=" + i.tmp, "TMPDIR=" + i.tmp}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// install runs install.sh. The script must succeed, print the wanted texts, and leave no temporary files.
func (i installer) install(t *testing.T, args []string, want ...string) {
	t.Helper()
	out, err := i.run(args...)
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", i.shell, args, err, out)
	}
	for _, w := range want {
		if !strings.Contains(out, w) {
			t.Errorf("%q does not say %q:\n%s", args, w, out)
		}
	}
	if left := below(t, i.tmp); left != "" {
		t.Errorf("%q: temporary files are left:\n%s", args, left)
	}
}

// fails runs install.sh when it cannot succeed. The script must fail with the wanted text, change nothing, and leave no
// temporary files.
func (i installer) fails(t *testing.T, args []string, want string) {
	t.Helper()
	parent := filepath.Dir(i.prefix)
	before := below(t, parent)
	out, err := i.run(args...)
	if err == nil || !strings.Contains(out, want) {
		t.Errorf("%q: %v, it does not say %q:\n%s", args, err, want, out)
	}
	if after := below(t, parent); after != before {
		t.Errorf("%q: below the prefix are\n%snot\n%s", args, after, before)
	}
	if left := below(t, i.tmp); left != "" {
		t.Errorf("%q: temporary files are left:\n%s", args, left)
	}
}

// TestInstallScript: with each shell, install.sh installs a release whose checksum is right, and can uninstall it. A
// newer release replaces an older one. Folders and files that existed before the installation stay.
func TestInstallScript(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("its archives are for Linux")
	}
	older := serve(t, fakeRelease(t, "0.0.9", "echo ddtop 0.0.9", "ddtop", "ddtop-old"), "")
	newer := serve(t, fakeRelease(t, "0.1.0", "echo ddtop 0.1.0", "ddtop", "ddtop-new"), "")
	for _, shell := range []string{"sh", "bash", "busybox"} {
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("%s is not here", shell)
			continue
		}
		i := newInstaller(t)
		if shell == "busybox" {
			link := filepath.Join(t.TempDir(), "sh")
			if err := os.Symlink(path, link); err != nil {
				t.Fatal(err)
			}
			path = link
		}
		i.shell = path
		// First install into a folder that does not exist yet. Later install into a folder that already has files of
		// other programs.
		i.install(t, []string{"--from", newer}, "SHA-256", "installed "+i.prefix+"/bin/ddtop", "ddtop 0.1.0", "is not on your PATH",
			"--uninstall --prefix '"+strings.ReplaceAll(i.prefix, "'", `'\''`)+"'")
		i.install(t, []string{"--uninstall"}, "removed "+i.prefix+"/bin/ddtop")
		if left := below(t, i.prefix); left != "" {
			t.Fatalf("%s: left behind:\n%s", shell, left)
		}
		for _, dir := range []string{"bin", "share/man/man1", "share/zsh"} {
			if err := os.MkdirAll(filepath.Join(i.prefix, dir), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(i.prefix, "share/zsh/own"), []byte("own"), 0o600); err != nil {
			t.Fatal(err)
		}
		before := below(t, i.prefix)
		i.install(t, []string{"--from", older, "--version", "v0.0.9"}, "ddtop 0.0.9")
		i.path = i.prefix + "/bin:"
		i.install(t, []string{"--from", newer + "/"}, "ddtop 0.1.0", "removed "+i.prefix+"/share/man/man1/ddtop-old.1.gz")
		if all := below(t, i.prefix); strings.Contains(all, "ddtop-old") || strings.Contains(all, ".new") || !strings.Contains(all, "/bin/ddtop -rwxr-xr-x") {
			t.Errorf("%s: after the update there are\n%s", shell, all)
		}
		i.install(t, []string{"--uninstall"})
		if after := below(t, i.prefix); after != before {
			t.Errorf("%s: after all there are\n%s, not\n%s", shell, after, before)
		}
	}
}

// TestInstallScriptFails: if something goes wrong, install.sh reports it and changes nothing. The test tries each fault
// twice: on a machine without ddtop, and on a machine with an older ddtop.
func TestInstallScriptFails(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("its archives are for Linux")
	}
	good := fakeRelease(t, "0.1.0", "echo ddtop 0.1.0", "ddtop")
	archive := fmt.Sprintf("ddtop_0.1.0_linux_%s.tar.gz", runtime.GOARCH)
	url := serve(t, good, "")
	altered := []byte(good[archive])
	altered[len(altered)/2] ^= 1
	cases := []struct {
		args []string
		want string
	}{
		{[]string{"--from", serve(t, map[string]string{"checksums.txt": good["checksums.txt"], archive: string(altered)}, "")}, "is not the file of the release"},
		{[]string{"--from", serve(t, map[string]string{"checksums.txt": good["checksums.txt"], archive: good[archive][:len(altered)/2]}, "")}, "is not the file of the release"},
		{[]string{"--from", serve(t, good, archive)}, "cannot fetch"},
		{[]string{"--from", serve(t, good, "checksums.txt")}, "cannot fetch"},
		{[]string{"--from", serve(t, map[string]string{"checksums.txt": good["checksums.txt"][:70], archive: good[archive]}, "")}, "names no archive"},
		{[]string{"--from", serve(t, fakeRelease(t, "0.1.0", "exit 1", "ddtop"), "")}, "does not run"},
		{[]string{"--from", url, "--version", "9.9.9"}, "not version 9.9.9"},
		{[]string{"--from", url + "/nothing"}, "cannot fetch"},
		{[]string{"--from", "file:///nothing"}, "cannot read"},
		{[]string{"--from", "http://192.0.2.1"}, "neither https"},
		{[]string{"--prefix"}, "needs a value"},
		{[]string{"--nonsense"}, "no option --nonsense"},
	}
	i := newInstaller(t)
	i.fails(t, []string{"--uninstall"}, "has installed nothing")
	script, err := os.ReadFile(installScript)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, c := range cases {
			i.fails(t, c.args, c.want)
		}
		// If the download of install.sh itself breaks off, the shell runs only the first part of the script. Such a
		// part must do nothing.
		for n := len(script) / 8; n < len(script)-20; n += len(script) / 8 {
			cut := i
			cut.script = string(script[:n]) + "\n"
			before := below(t, filepath.Dir(i.prefix))
			out, _ := cut.run("--from", url) // the first part of the script may be no valid script
			if after := below(t, filepath.Dir(i.prefix)); after != before {
				t.Errorf("the first %d bytes of the script installed something: %s", n, out)
			}
		}
		i.install(t, []string{"--from", serve(t, fakeRelease(t, "0.0.9", "echo ddtop 0.0.9", "ddtop"), "")})
	}
	// A folder with the name of the last file makes the script fail at this file.
	page := filepath.Join(i.prefix, "share/man/man1/ddtop.1.gz")
	if err := os.Remove(page); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(page, 0o755); err != nil {
		t.Fatal(err)
	}
	i.fails(t, []string{"--from", url}, "is a folder")
}

// TestInstallScriptWithoutRights: if a user may not write below the prefix, install.sh says so and changes nothing.
func TestInstallScriptWithoutRights(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("its archives are for Linux")
	}
	setpriv, err := exec.LookPath("setpriv")
	if err != nil || os.Getuid() != 0 {
		t.Skip("it needs root and setpriv, to be another user")
	}
	i := newInstaller(t)
	for _, dir := range []string{filepath.Dir(i.prefix), i.tmp} {
		for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
			if err := os.Chmod(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Chmod(i.tmp, 0o1777); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(filepath.Dir(i.prefix), "install.sh")
	text, err := os.ReadFile(installScript)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(script, text, 0o644); err != nil {
		t.Fatal(err)
	}
	url := serve(t, fakeRelease(t, "0.1.0", "echo ddtop 0.1.0", "ddtop"), "")
	nobody := func(want string, args ...string) {
		t.Helper()
		before := below(t, filepath.Dir(i.prefix))
		cmd := exec.Command(setpriv, append([]string{"--reuid=65534", "--regid=65534", "--clear-groups", "sh", script, "--prefix", i.prefix}, args...)...)
		cmd.Dir, cmd.Env = "/", []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + i.tmp}
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%q: %v, it does not say %q:\n%s", args, err, want, out)
		}
		if after := below(t, filepath.Dir(i.prefix)); after != before {
			t.Errorf("%q: there are\n%snot\n%s", args, after, before)
		}
	}
	nobody("choose another --prefix", "--from", url)
	nobody("Permission denied", "--from", url) // the kernel's message
	i.install(t, []string{"--from", url})
	nobody("choose another --prefix", "--from", url)
	nobody("cannot remove", "--uninstall")
	// Let the user write to a few of the folders below the prefix, but not to all.
	if err := os.Chmod(filepath.Join(i.prefix, "bin"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(i.prefix, "share/ddtop"), 0o777); err != nil {
		t.Fatal(err)
	}
	nobody("choose another --prefix", "--from", url)
}
