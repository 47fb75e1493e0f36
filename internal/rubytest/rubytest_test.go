package rubytest

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestEachRubyRunsWhatItSaysItIs(t *testing.T) {
	Each(t, func(t *testing.T, r Ruby) {
		p := r.Start(t, `
			require "json"
			$stderr.puts "to stderr"
			puts "noise"
			puts JSON.generate("version" => RUBY_VERSION, "pid" => Process.pid, "path" => __FILE__, "dir" => __dir__,
			                   "args" => ARGV, "env" => ENV["KEY"], "encoding" => Encoding.default_external.to_s)
			$stdout.flush
			puts "got " + STDIN.gets
			exit 7
		`, Options{Name: "näme.rb", Args: []string{"a", "b"}, Env: []string{"KEY=value"}})
		var said struct {
			Version, Path, Dir, Env, Encoding string
			PID                               int
			Args                              []string
		}
		p.JSON(t, &said)
		if said.Version != r.Version || said.PID != p.PID || said.Path != "näme.rb" || said.Dir != p.Dir ||
			said.Env != "value" || said.Encoding != "UTF-8" || strings.Join(said.Args, " ") != "a b" {
			t.Errorf("%+v of %+v", said, p)
		}
		if _, err := os.Stat(filepath.Join(p.HostDir, "näme.rb")); err != nil {
			t.Error(err)
		}
		p.Send(t, "hello")
		p.Expect(t, "got hello")
		if code := p.Wait(t); code != 7 {
			t.Errorf("exit code %d, want 7", code)
		}
		if p.Stderr() != "to stderr\n" {
			t.Errorf("stderr %q", p.Stderr())
		}
	})
}

// TestEachVersion: if several Rubies have the same version, EachVersion must run the test only on the first of them.
func TestEachVersion(t *testing.T) {
	var all, ran []string
	Each(t, func(t *testing.T, r Ruby) {
		if !slices.Contains(all, r.Version) {
			all = append(all, r.Version)
		}
	})
	EachVersion(t, func(t *testing.T, r Ruby) { ran = append(ran, r.Version) })
	if !slices.Equal(ran, all) {
		t.Errorf("of the versions %v %v ran", all, ran)
	}
}

// TestOldestAndNewest: OldestAndNewest must run the test only on the oldest and the newest Ruby. If there is only one
// release, it must run the test on one Ruby.
func TestOldestAndNewest(t *testing.T) {
	all := All(t)
	var want, ran []string
	Each(t, func(t *testing.T, r Ruby) { // fewer Rubies, if this run tests only what an earlier run left out
		if r.Name == oldest(all).Name || r.Name == newest(all).Name {
			want = append(want, r.Name)
		}
	})
	OldestAndNewest(t, func(t *testing.T, r Ruby) { ran = append(ran, r.Name) })
	if !slices.Equal(ran, want) {
		t.Errorf("%v ran, want %v", ran, want)
	}
	list := []Ruby{{Name: "b", Version: "3.1.2"}, {Name: "a", Version: "2.7.4"}, {Name: "c", Version: "2.7.8"}, {Name: "d", Version: "4.0.1"}}
	if o, n := oldest(list).Name, newest(list).Name; o != "a" || n != "d" {
		t.Errorf("the oldest is %s, the newest %s", o, n)
	}
}

func TestStopKillsTheWholeGroup(t *testing.T) {
	r := One(t)
	p := r.Start(t, `
		puts fork { sleep }
		$stdout.flush
		sleep
	`, Options{})
	child := p.Line(t)
	p.Stop(t)
	// The child's parent was killed, so the child gets a new parent. The child itself is then killed too. It is a
	// zombie until the new parent has waited for it.
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for deadline := time.Now().Add(Timeout); ; <-poll.C {
		stat, err := os.ReadFile("/proc/" + child + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("child %s lives on: %s", child, stat)
		}
	}
}

func TestReport(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report")
	t.Setenv("DDTOP_TEST_REPORT", file)
	Report(t, "%d of %d", 1, 2)
	got, err := os.ReadFile(file)
	if err != nil || string(got) != "TestReport: 1 of 2\n" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestMissingRubies: if a Ruby cannot be fetched, the test that needs it must be skipped with the reason. With CI=true,
// it must fail.
func TestMissingRubies(t *testing.T) {
	if env(nested) != "" {
		Each(t, func(*testing.T, Ruby) {})
		return
	}
	for ci, word := range map[string]string{"": "SKIP", "true": "FAIL"} {
		out, err := again(t, "CI="+ci, "DDTOP_TEST_CACHE=/dev/null/none", "DDTOP_TEST_ONLY=debian")
		if failed := err != nil; failed != (ci == "true") {
			t.Errorf("CI=%s: %v", ci, err)
		}
		word = "--- " + word + ": TestMissingRubies/debian-3.3"
		if !strings.Contains(out, word) || !strings.Contains(out, "scripts/rubies: exit status 1: ") {
			t.Errorf("CI=%s: no %q, or no reason, in\n%s", ci, word, out)
		}
	}
}

func TestRelease(t *testing.T) {
	r := Ruby{Version: "3.1.2"}
	for _, c := range []struct {
		major, minor int
		want         bool
	}{{2, 7, true}, {3, 0, true}, {3, 1, true}, {3, 2, false}, {4, 0, false}} {
		if got := r.AtLeast(c.major, c.minor); got != c.want {
			t.Errorf("3.1.2 at least %d.%d: %v", c.major, c.minor, got)
		}
	}
}

func TestRecordOfWhatRan(t *testing.T) {
	file := filepath.Join(t.TempDir(), "record")
	if env(nested) != "" {
		r := One(t)
		t.Run("ran", func(t *testing.T) {
			for range 2 {
				r.Start(t, "puts 1", Options{})
			}
		})
		t.Run("skipped", func(t *testing.T) {
			recordAtEnd(t, r)
			Skip(t, "not %s", "today")
		})
		return
	}
	if out, err := again(t, "DDTOP_TEST_RECORD="+file); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	version := One(t).Version
	want := "ran " + version + " TestRecordOfWhatRan/ran\nskip " + version + " TestRecordOfWhatRan/skipped not today\n"
	if string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// nested is an environment variable. It is set in the process in which a test runs itself again.
const nested = "DDTOP_TEST_NESTED"

// again runs the same test in a process of its own, with additions to its environment. There it can fail or be skipped
// without an effect on this run.
func again(t *testing.T, environment ...string) (string, error) {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(append(cmd.Environ(), nested+"=1", "DDTOP_TEST_RECORD="), environment...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestRecord(t *testing.T) {
	file := filepath.Join(t.TempDir(), "record")
	t.Setenv("DDTOP_TEST_RECORD", file)
	record("ran", "3.3.8", "TestX/debian-3.3", "")
	record("skip", "3.4", "TestY", "no\nnetwork")
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if want := "ran 3.3.8 TestX/debian-3.3\nskip 3.4 TestY no network\n"; string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestOnePerRelease: with -short, a test of EachRelease must run on one Ruby of each release. The other Rubies are
// recorded as left out.
func TestOnePerRelease(t *testing.T) {
	file := filepath.Join(t.TempDir(), "record")
	t.Setenv("DDTOP_TEST_RECORD", file)
	got := onePerRelease(t, []Ruby{{Name: "a", Version: "3.1.2"}, {Name: "b", Version: "3.3.8"}, {Name: "c", Version: "3.1.6"}})
	if len(got) != 2 || got[0].Name != "a" || got[1].Name != "b" {
		t.Errorf("got %v", got)
	}
	left, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if want := "left " + reflect.TypeFor[Ruby]().PkgPath() + " TestOnePerRelease/c\n"; string(left) != want {
		t.Errorf("left %q, want %q", left, want)
	}
}
