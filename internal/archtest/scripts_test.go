package archtest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// shellScripts returns the project's files that are shell scripts. It recognizes them by their first lines.
func shellScripts(t *testing.T, root string) []string {
	t.Helper()
	list := exec.Command("git", "ls-files", "-z")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Skipf("these files are no checkout of git: %v", err)
	}
	var scripts []string
	for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		if ext := filepath.Ext(name); ext != "" && ext != ".sh" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			continue // a link, or a removed file
		}
		line, _, _ := bytes.Cut(text, []byte("\n"))
		if bytes.HasPrefix(line, []byte("#!")) && bytes.HasSuffix(line, []byte("sh")) || bytes.HasPrefix(line, []byte("# shellcheck shell=")) {
			scripts = append(scripts, name)
		}
	}
	return scripts
}

// TestScriptsAreClean: shellcheck has no warning about the project's shell scripts. This includes the scripts that
// users run, such as install.sh.
func TestScriptsAreClean(t *testing.T) {
	t.Parallel()
	shellcheck := rubytest.Program(t, "shellcheck", "shellcheck")
	root := filepath.Join("..", "..")
	scripts := shellScripts(t, root)
	for _, want := range []string{".ci/run", "scripts/lib.sh", "scripts/release", "packaging/install.sh", "packaging/kubernetes/kubectl-ddtop"} {
		if !slices.Contains(scripts, want) {
			t.Errorf("%s is not among the scripts: %q", want, scripts)
		}
	}
	cmd := exec.Command(shellcheck, append([]string{"--external-sources", "--severity=warning"}, scripts...)...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
