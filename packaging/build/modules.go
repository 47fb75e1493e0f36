package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// proxy writes the committed version of ddtop's module into a folder. If GOPROXY names this folder, `go install
// github.com/ddtop/ddtop@VERSION` can be tested before the release is published.
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
	// git archive packs only committed files, so no other file gets into the module. It also works in a linked work
	// tree of git.
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
