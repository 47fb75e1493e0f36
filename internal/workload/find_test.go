package workload

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fake writes an executable that imitates an interpreter. It runs answer, a shell command that prints an engine and a
// version.
func fake(t *testing.T, path, answer string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+answer+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestFindRuby(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("PATH", home+"/bin")

	fake(t, home+"/.rbenv/versions/3.4.9/bin/ruby", "printf 'ruby 99.4.9'")
	fake(t, home+"/.rbenv/versions/3.10.1/bin/ruby", "printf 'ruby 99.10.1'")
	fake(t, home+"/.rbenv/versions/jruby/bin/ruby", "printf 'jruby 99.99'")
	got, err := FindRuby(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if path := "/.rbenv/versions/3.10.1/bin/ruby"; got.Path != home+path || got.Version != "99.10.1" {
		t.Errorf("found %+v, want the newest, %s", got, path)
	}

	fake(t, home+"/bin/ruby", "printf 'ruby 2.7.1'")
	if got, err = FindRuby(t.Context()); err != nil || got.Path != home+"/bin/ruby" {
		t.Errorf("found %+v, %v; want the one in PATH", got, err)
	}

	fake(t, home+"/bin/ruby", "printf 'ruby 2.4.10'")
	if got, err = FindRuby(t.Context()); err != nil || got.Version != "99.10.1" {
		t.Errorf("found %+v, %v; want to pass over the one that is too old", got, err)
	}
}

func TestAskRubySaysWhyNot(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ answer, want string }{
		{"printf 'truffleruby 3.2.2'", `is "truffleruby" and not CRuby`},
		{"printf 'ruby 2.4.10'", "needs 2.5 or later"},
		{"echo broken >&2; exit 1", "exit status 1"},
	} {
		fake(t, dir+"/ruby", c.answer)
		_, err := AskRuby(t.Context(), dir+"/ruby")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.answer, err, c.want)
		}
	}
}

func TestNoRuby(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("PATH", t.TempDir())
	if len(candidates()) > 0 {
		t.Skip("this machine has a Ruby where every user finds it")
	}
	_, err := FindRuby(t.Context())
	if !errors.Is(err, errNoRuby) || !strings.Contains(err.Error(), "apt-get install ruby") {
		t.Errorf("without a Ruby: %v", err)
	}
}
