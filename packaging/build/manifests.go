package main

import (
	"bufio"
	"embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/ddtop/ddtop/internal/cli"
)

// templates are the manifests of package managers. Each lists files of a release with their checksums.
//
//go:embed templates
var templates embed.FS

// checksumsFile is the name of a file with one line for each file of a release, in the format of sha256sum.
const checksumsFile = "checksums.txt"

// release is the data for a template.
type release struct {
	Version string
	sums    map[string]string
}

// URL returns the address from which users download a file of the release.
func (r release) URL(name string) string {
	return "https://github.com/ddtop/ddtop/releases/download/v" + r.Version + "/" + name
}

// Archive returns the name of a platform's archive, for example ddtop_0.1.0_linux_amd64.tar.gz.
func (r release) Archive(platform string) string {
	return "ddtop_" + r.Version + "_" + platform + ".tar.gz"
}

// SHA256 returns the checksum of a file of the release.
func (r release) SHA256(name string) (string, error) {
	sum, ok := r.sums[name]
	if !ok {
		return "", fmt.Errorf("%s has no line for %s", checksumsFile, name)
	}
	return sum, nil
}

// manifests writes the Homebrew formula and the krew manifest into the folder of a release. It reads the checksums
// from the same folder.
func manifests(args []string) error {
	sums, err := readChecksums(filepath.Join(args[0], checksumsFile))
	if err != nil {
		return err
	}
	all, err := template.ParseFS(templates, "templates/*")
	if err != nil {
		return err
	}
	for _, t := range all.Templates() {
		err := writeFile(filepath.Join(args[0], strings.TrimSuffix(t.Name(), ".tmpl")), 0o644, func(w io.Writer) error {
			return t.Execute(w, release{cli.Version, sums})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// readChecksums returns the checksums in a file in the format of sha256sum. The keys are the names of the files.
func readChecksums(path string) (map[string]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sums := make(map[string]string)
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		sum, name, ok := strings.Cut(lines.Text(), "  ")
		if !ok || len(sum) != 64 {
			return nil, fmt.Errorf("%s: %q is no line of sha256sum", path, lines.Text())
		}
		sums[name] = sum
	}
	return sums, lines.Err()
}
