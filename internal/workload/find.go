package workload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// errNoRuby is returned by FindRuby if no Ruby on this machine can run the bundled program.
var errNoRuby = errors.New("no Ruby found")

// askTime limits how long an interpreter may take to print its version. If the ruby is from a version manager, it can
// be a wrapper (shim) that hangs.
const askTime = 10 * time.Second

// maxCandidates limits how many interpreters outside PATH are started to ask for their versions.
const maxCandidates = 32

// Ruby is an interpreter found on this machine.
type Ruby struct {
	// Path is the path of the executable.
	Path string
	// Version is RUBY_VERSION, "3.1.2".
	Version string
}

// FindRuby finds a CRuby 2.5 or later. It returns the first one in PATH. If there is none, it returns the newest in the
// folders of rbenv, asdf, ruby-install and distributions. If there is none either, it returns errNoRuby and names the
// searched folders.
func FindRuby(ctx context.Context) (Ruby, error) {
	var refused []string
	ask := func(path string) (Ruby, bool) {
		r, err := AskRuby(ctx, path)
		if err != nil {
			refused = append(refused, err.Error())
		}
		return r, err == nil
	}
	if path, err := exec.LookPath("ruby"); err == nil {
		if r, ok := ask(path); ok {
			return r, nil
		}
	}
	var found []Ruby
	for i, path := range candidates() {
		if i == maxCandidates {
			break
		}
		if r, ok := ask(path); ok {
			found = append(found, r)
		}
	}
	if len(found) == 0 {
		err := fmt.Errorf("%w in PATH, ~/.rbenv, ~/.asdf, ~/.rubies, /opt/rubies, /usr/local/bin and /usr/bin: install "+
			"one (apt-get install ruby, dnf install ruby, apk add ruby, brew install ruby) or name one with --ruby", errNoRuby)
		if len(refused) > 0 {
			err = fmt.Errorf("%w (not usable: %s)", err, strings.Join(refused, "; "))
		}
		return Ruby{}, err
	}
	return slices.MaxFunc(found, func(a, b Ruby) int { return slices.Compare(numbers(a.Version), numbers(b.Version)) }), nil
}

// AskRuby runs an interpreter to learn its version. If the bundled program cannot run on it, the error says why.
func AskRuby(ctx context.Context, path string) (Ruby, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--disable-gems", "-e", `print RUBY_ENGINE, " ", RUBY_VERSION`).Output()
	if err != nil {
		return Ruby{}, fmt.Errorf("asking %s for its version: %w", path, err)
	}
	engine, version, _ := strings.Cut(string(out), " ")
	if engine != "ruby" {
		return Ruby{}, fmt.Errorf("%s is %q and not CRuby", path, engine)
	}
	if slices.Compare(numbers(version), []int{2, 5}) < 0 {
		return Ruby{}, fmt.Errorf("%s is Ruby %s: the workload needs 2.5 or later", path, version)
	}
	return Ruby{Path: path, Version: version}, nil
}

func candidates() []string {
	patterns := []string{"/opt/rubies/*/bin/ruby", "/usr/local/bin/ruby", "/usr/bin/ruby[0-9]*", "/opt/homebrew/opt/ruby/bin/ruby"}
	if home, err := os.UserHomeDir(); err == nil {
		for _, dir := range []string{".rbenv/versions", ".asdf/installs/ruby", ".rubies", ".local/share/mise/installs/ruby"} {
			patterns = append(patterns, filepath.Join(home, dir, "*", "bin", "ruby"))
		}
	}
	var paths []string
	for _, pattern := range patterns {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			continue // the home folder's name has a "[", so the pattern is malformed
		}
		paths = append(paths, matches...)
	}
	return paths
}

func numbers(version string) []int {
	var ns []int
	for part := range strings.SplitSeq(version, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			break
		}
		ns = append(ns, n)
	}
	return ns
}
