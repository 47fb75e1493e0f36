package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// vendorHash prints the hash that flake.nix names as vendorHash: of the folder that `go mod vendor` makes, as Nix hashes folders.
func vendorHash([]string) error {
	dir, err := os.MkdirTemp("", "ddtop-vendor-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	vendor := filepath.Join(dir, "vendor")
	cmd := exec.Command("go", "mod", "vendor", "-o", vendor)
	cmd.Dir, cmd.Stderr = filepath.Join("..", ".."), os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go mod vendor: %w", err)
	}
	sum, err := narHash(vendor)
	if err != nil {
		return err
	}
	_, err = fmt.Println(sum)
	return err
}

// narHash returns the hash of a file or a folder as Nix takes it: of its archive in the format NAR.
func narHash(path string) (string, error) {
	h := sha256.New()
	n := nar{to: h}
	n.words("nix-archive-1")
	if err := n.node(path); err != nil {
		return "", err
	}
	return "sha256-" + base64.StdEncoding.EncodeToString(h.Sum(nil)), nil
}

// nar writes the format NAR: words, each with its length before it, padded to eight bytes.
type nar struct{ to io.Writer }

func (n nar) words(all ...string) {
	for _, w := range all {
		var length [8]byte
		binary.LittleEndian.PutUint64(length[:], uint64(len(w)))
		// A hash takes everything.
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

// proxy writes a version of the module, as it is committed, into a folder that GOPROXY can name. With it `go install
// github.com/ddtop/ddtop@VERSION` is tried before anything is published.
func proxy(args []string) error {
	m := module.Version{Path: "github.com/ddtop/ddtop", Version: args[1]}
	dir := filepath.Join(args[0], m.Path, "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := os.MkdirTemp("", "ddtop-module-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	// git archive leaves out what is not committed, in a work tree of git's, too.
	pack := exec.Command("sh", "-c", `git archive HEAD | tar -x -C "$1"`, "sh", root)
	pack.Dir, pack.Stderr = filepath.Join("..", ".."), os.Stderr
	if err := pack.Run(); err != nil {
		return fmt.Errorf("git archive: %w", err)
	}
	err = writeFile(filepath.Join(dir, m.Version+".zip"), 0o644, func(w io.Writer) error { return zip.CreateFromDir(w, m, root) })
	if err != nil {
		return err
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, m.Version+".mod"), mod, 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "list"), []byte(m.Version+"\n"), 0o644); err != nil {
		return err
	}
	info := fmt.Sprintf(`{"Version":%q}`, m.Version)
	return os.WriteFile(filepath.Join(dir, m.Version+".info"), []byte(info), 0o644)
}
