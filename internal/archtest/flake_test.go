package archtest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/cli"
)

// TestFlakeNamesTheModules: vendorHash in flake.nix is the hash of the folder that `go mod vendor` makes. The contents
// of this folder change with go.mod, and also if ddtop imports one more package of a module. If vendorHash is out of
// date, Nix refuses to build ddtop.
func TestFlakeNamesTheModules(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	vendor := filepath.Join(t.TempDir(), "vendor")
	cmd := exec.Command("go", "mod", "vendor", "-o", vendor)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go mod vendor: %v\n%s", err, out)
	}
	want, err := narHash(vendor)
	if err != nil {
		t.Fatal(err)
	}
	flake, err := os.ReadFile(filepath.Join(root, "flake.nix"))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`vendorHash = "(.*)";`).FindSubmatch(flake)
	if m == nil {
		t.Fatal("flake.nix has no vendorHash")
	}
	if got := string(m[1]); got != want {
		t.Errorf("the modules have changed: flake.nix says vendorHash = %q, it has to be %q", got, want)
	}
}

// TestNarHash: narHash, which this test package implements itself, computes the same hash as Nix. Otherwise
// TestFlakeNamesTheModules would compare with a wrong hash.
func TestNarHash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "script"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	n := nar{to: &b}
	if err := n.node(dir); err != nil {
		t.Fatal(err)
	}
	got := regexp.MustCompile(`[^ -~]+`).ReplaceAllString(b.String(), " ")
	if want := " ( type directory entry ( name empty node ( type directory ) ) entry ( name script node ( type regular executable contents #!/bin/sh ) ) ) "; strings.Join(strings.Fields(got), " ") != strings.TrimSpace(want) {
		t.Errorf("got %q", got)
	}
}

// TestReleaseIsNamed: files that mention ddtop's current release mention the same release as the source code.
func TestReleaseIsNamed(t *testing.T) {
	t.Parallel()
	for file, names := range map[string]*regexp.Regexp{
		"flake.nix":                               regexp.MustCompile(`version = "(\d\S*)"`),
		"README.md":                               regexp.MustCompile(`ghcr\.io/ddtop/ddtop:(\d[\w.-]*)`),
		"docs/install.md":                         regexp.MustCompile(`ghcr\.io/ddtop/ddtop:(\d[\w.-]*)`),
		"packaging/kubernetes/daemonset.yaml":     regexp.MustCompile(`ghcr\.io/ddtop/ddtop:(\S+)`),
		"packaging/kubernetes/kustomization.yaml": regexp.MustCompile(`newTag: (\S+)`),
	} {
		text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		all := names.FindAllSubmatch(text, -1)
		if len(all) == 0 {
			t.Errorf("%s names no release", file)
		}
		for _, m := range all {
			if got := string(m[1]); got != cli.Version {
				t.Errorf("%s names release %s, this is %s", file, got, cli.Version)
			}
		}
	}
}

// narHash returns Nix's hash of a file or folder: the hash of its archive in the format NAR.
func narHash(path string) (string, error) {
	h := sha256.New()
	n := nar{to: h}
	n.words("nix-archive-1")
	if err := n.node(path); err != nil {
		return "", err
	}
	return "sha256-" + base64.StdEncoding.EncodeToString(h.Sum(nil)), nil
}

// nar writes an archive in Nix's format NAR, which is a series of words (byte strings). The length of each word comes
// before the word. Each word is padded to a multiple of eight bytes.
type nar struct{ to io.Writer }

func (n nar) words(all ...string) {
	for _, w := range all {
		var length [8]byte
		binary.LittleEndian.PutUint64(length[:], uint64(len(w)))
		// Writing to a hash never fails.
		_, _ = n.to.Write(length[:])
		_, _ = io.WriteString(n.to, w)
		_, _ = n.to.Write(make([]byte, (8-len(w)%8)%8))
	}
}

func (n nar) node(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	n.words("(", "type")
	switch mode := info.Mode(); {
	case mode.IsDir():
		n.words("directory")
		entries, err := os.ReadDir(path) // in the order of their names
		if err != nil {
			return err
		}
		for _, e := range entries {
			n.words("entry", "(", "name", e.Name(), "node")
			if err := n.node(filepath.Join(path, e.Name())); err != nil {
				return err
			}
			n.words(")")
		}
	case mode.IsRegular():
		n.words("regular")
		if mode&0o100 != 0 {
			n.words("executable", "")
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		n.words("contents", string(text))
	default:
		return fmt.Errorf("%s is neither a file nor a folder", path)
	}
	n.words(")")
	return nil
}
