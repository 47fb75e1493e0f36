// Package rubytest gives tests real Rubies. These are Debian's own stripped builds, each in its own root
// (scripts/rubies gets them), and every CRuby on the machine. The package starts programs on these Rubies, reads the
// programs' output line by line, and ends the programs with the test.
//
// A test that compares ddtop with Ruby's own report looks like this:
//
//	rubytest.Each(t, func(t *testing.T, r rubytest.Ruby) {
//		p, truth := r.StartParked(t, rubytest.Options{})
//		… read p.PID, compare with truth …
//	})
//
// Environment:
//
//	DDTOP_TEST_CACHE   where scripts/rubies keeps the roots
//	DDTOP_TEST_RUBIES  more Rubies, a colon list of executables or install prefixes
//	DDTOP_TEST_ONLY    a regular expression: only Rubies whose name matches (for work on one release)
//	DDTOP_TEST_RECORD  a file to which lines are appended:
//	                   "ran VERSION TEST" and "skip VERSION TEST REASON"
//	                   "left PACKAGE TEST" for a test that -short left out
//	                   "seldom PACKAGE TEST" for a test that may run again (OftenEnough)
//	DDTOP_TEST_REPORT  a file to which Report appends what was measured
//	CI=true            a missing Debian Ruby fails the test; elsewhere the test is skipped
package rubytest

import (
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Ruby is an interpreter that tests can run programs on.
type Ruby struct {
	// Name is the name of this Ruby, such as debian-3.3 or host-3.4.9. No other Ruby of this machine has the same name.
	Name string
	// Version is RUBY_VERSION: 3.3.8.
	Version string
	// Root is the folder to chroot into. It is "" for a Ruby of the host.
	Root string
	// Bin is the path of the ruby executable, as seen inside Root.
	Bin string
	// Emulator is the path of an emulator inside Root, if Bin is for another CPU architecture. It is "" for a Ruby that
	// needs no emulator. With an emulator, the started process is the emulator. Then the process's memory, threads,
	// thread IDs and kernel's figures belong to the emulator.
	Emulator string
}

// Release returns the first two numbers of the version. It returns zeros if Version has another form.
func (r Ruby) Release() (major, minor int) {
	parts := strings.SplitN(r.Version, ".", 3)
	if len(parts) < 2 {
		return 0, 0
	}
	major, errMajor := strconv.Atoi(parts[0])
	minor, errMinor := strconv.Atoi(parts[1])
	if errMajor != nil || errMinor != nil {
		return 0, 0
	}
	return major, minor
}

// AtLeast reports whether the release is major.minor or later.
func (r Ruby) AtLeast(major, minor int) bool {
	haveMajor, haveMinor := r.Release()
	return haveMajor > major || haveMajor == major && haveMinor >= minor
}

// NeedExact skips the test if exact mode does not support the Ruby (docs/reference/exact.md).
func NeedExact(t testing.TB, r Ruby) {
	t.Helper()
	if !r.AtLeast(2, 6) {
		Skip(t, "exact mode is for Ruby 2.6 and later")
	}
	var patch int
	if _, err := fmt.Sscanf(r.Version, "3.4.%d", &patch); err == nil && patch < 9 {
		Skip(t, "exact mode is not for Ruby 3.4.0 to 3.4.8, whose children can wait for ever (https://bugs.ruby-lang.org/issues/21860)")
	}
}

// String returns the name and the version.
func (r Ruby) String() string { return r.Name + " (" + r.Version + ")" }

// missing is one of Debian's Rubies that is not installed here, and the reason why.
type missing struct {
	name, version, reason string
}

// All returns every available Ruby, Debian's first, in the order of their releases. If a Debian Ruby is missing, this
// is recorded as skipped, and with CI=true the test fails. If no Ruby is available, the test is skipped. With -short,
// All returns only the newest Ruby. Callers must run a subtest for each Ruby, with the Ruby's name. Then a later run
// can test only the Rubies that -short left out.
func All(t testing.TB) []Ruby {
	t.Helper()
	found := short(t, wanted(t, discover()))
	for _, m := range found.missing {
		if onCI() {
			t.Errorf("%s is missing: %s", m.name, m.reason)
			continue
		}
		record("skip", m.version, t.Name(), m.reason)
	}
	if len(found.rubies) == 0 {
		Skip(t, "no Ruby to test against")
	}
	return found.rubies
}

// Each runs the function test as a subtest on every available Ruby. The subtest has the Ruby's name. With -short, Each
// uses only the newest Ruby. For a missing Debian Ruby, the subtest is skipped, or fails with CI=true. For Rubies of
// other CPU architectures use EachForeign.
func Each(t *testing.T, test func(t *testing.T, r Ruby)) {
	t.Helper()
	each(t, short(t, wanted(t, discover())), test)
}

// EachVersion is like Each, but uses one Ruby of each version. It is for tests that depend only on the version of Ruby,
// and not on the build or the installation. If two Rubies have the same version, the subtest of the second is skipped.
// This is often the host's Ruby, because one of Debian's Rubies usually has the same version.
func EachVersion(t *testing.T, test func(t *testing.T, r Ruby)) {
	t.Helper()
	Each(t, onePerVersion(test))
}

// onePerVersion returns a test that skips a Ruby if an earlier Ruby has the same version. Only Rubies that
// DDTOP_TEST_ONLY allows count (wanted).
func onePerVersion(test func(t *testing.T, r Ruby)) func(t *testing.T, r Ruby) {
	return func(t *testing.T, r Ruby) {
		for _, other := range wanted(t, discover()).rubies {
			if other.Name == r.Name {
				break
			}
			if other.Version == r.Version {
				Skip(t, "it has the version of %s", other.Name)
			}
		}
		test(t, r)
	}
}

// OldestAndNewest is like Each, for tests that hardly depend on the version of Ruby. It runs the test only on the
// oldest and the newest Ruby, and skips the subtests of the others.
func OldestAndNewest(t *testing.T, test func(t *testing.T, r Ruby)) {
	t.Helper()
	Each(t, func(t *testing.T, r Ruby) {
		all := wanted(t, discover()).rubies
		if r.Name != oldest(all).Name && r.Name != newest(all).Name {
			Skip(t, "it is neither the oldest nor the newest")
		}
		test(t, r)
	})
}

// EachRelease is like Each, but with one Ruby of every release, even with -short. It is for tests of basic facts, on
// which all other tests rely: where Ruby keeps its data, and what Ruby reports about itself.
func EachRelease(t *testing.T, test func(t *testing.T, r Ruby)) {
	t.Helper()
	found := wanted(t, discover())
	if testing.Short() {
		found.rubies = onePerRelease(t, found.rubies)
	}
	each(t, found, test)
}

// onePerRelease returns the first Ruby of each release. It records the other Rubies as left out.
func onePerRelease(t testing.TB, rubies []Ruby) []Ruby {
	var first []Ruby
	seen := make(map[[2]int]bool)
	for _, r := range rubies {
		major, minor := r.Release()
		if seen[[2]int{major, minor}] {
			leftOut(t.Name() + "/" + r.Name)
			continue
		}
		seen[[2]int{major, minor}] = true
		first = append(first, r)
	}
	return first
}

// short returns the found Rubies on which a test runs. With -short this is only the newest Ruby, and the
// function records the others as left out. Without -short, it returns all.
func short(t testing.TB, found discovery) discovery {
	if !testing.Short() || len(found.rubies) == 0 {
		return found
	}
	first := newest(found.rubies)
	for _, r := range found.rubies {
		if r.Name != first.Name {
			leftOut(t.Name() + "/" + r.Name)
		}
	}
	for _, m := range found.missing {
		leftOut(t.Name() + "/" + m.name)
	}
	return discovery{rubies: []Ruby{first}}
}

// EachForeign runs the function test as a subtest on every Ruby for another CPU architecture, in its emulator. With
// -short the test is skipped. For a missing Ruby, the subtest is skipped, or fails with CI=true.
func EachForeign(t *testing.T, test func(t *testing.T, r Ruby)) {
	t.Helper()
	Long(t)
	each(t, wanted(t, discoverForeign()), test)
}

// EachMusl runs the function test as a subtest on the Rubies that are linked with musl, as in Alpine. With -short the
// test is skipped. For a missing Ruby, the subtest is skipped even with CI=true, because building that Ruby takes
// minutes.
func EachMusl(t *testing.T, test func(t *testing.T, r Ruby)) {
	t.Helper()
	Long(t)
	found := wanted(t, discoverMusl())
	for _, m := range found.missing {
		record("skip", m.version, t.Name()+"/"+m.name, m.reason)
	}
	if len(found.rubies) == 0 {
		Skip(t, "no Ruby with musl: scripts/rubies musl builds one")
	}
	each(t, discovery{rubies: found.rubies}, test)
}

func each(t *testing.T, found discovery, test func(t *testing.T, r Ruby)) {
	t.Helper()
	for _, r := range found.rubies {
		t.Run(r.Name, func(t *testing.T) {
			recordAtEnd(t, r)
			test(t, r)
		})
	}
	for _, m := range found.missing {
		t.Run(m.name, func(t *testing.T) {
			if onCI() {
				t.Fatalf("%s is missing: %s", m.name, m.reason)
			}
			record("skip", m.version, t.Name(), m.reason)
			t.Skip(m.reason)
		})
	}
	if len(found.rubies)+len(found.missing) == 0 {
		Skip(t, "no Ruby to test against")
	}
}

// One returns a Ruby of the newest available release. It is for tests that work with any release. If there is no Ruby,
// it skips the test, or fails it with CI=true.
func One(t testing.TB) Ruby {
	t.Helper()
	found := wanted(t, discover())
	if len(found.rubies) == 0 {
		reason := "no Ruby to test against"
		for _, m := range found.missing {
			reason += "; " + m.name + ": " + m.reason
		}
		if onCI() {
			t.Fatal(reason)
		}
		Skip(t, "%s", reason)
	}
	return newest(found.rubies)
}

// oldest returns the first Ruby of the oldest release.
func oldest(rubies []Ruby) Ruby {
	first := rubies[0]
	for _, r := range rubies[1:] {
		major, minor := first.Release()
		if !r.AtLeast(major, minor) {
			first = r
		}
	}
	return first
}

// newest returns the first Ruby of the newest release.
func newest(rubies []Ruby) Ruby {
	best := rubies[0]
	for _, r := range rubies[1:] {
		major, minor := r.Release()
		if r.AtLeast(best.Release()) && (!best.AtLeast(major, minor)) {
			best = r
		}
	}
	return best
}

// Program returns the path of a program that a test needs. If the program is missing, the test is skipped, and the
// message names the Debian package that has it.
func Program(t testing.TB, command, pkg string) string {
	t.Helper()
	path, err := exec.LookPath(command)
	if err != nil {
		Skip(t, "needs %s: apt-get install %s", command, pkg)
	}
	return path
}

// Long skips the test with -short, so that `make test` stays fast. Tests call it if they take long, or if other tests
// check ddtop more strictly. `make test-rest` runs the skipped tests.
func Long(t testing.TB) {
	t.Helper()
	if Short(t) {
		Skip(t, "left out with -short")
	}
}

// Short reports whether -short is set, like testing.Short. If it is set, Short also records the test as left out, so
// that `make test-rest` later runs the whole test.
func Short(t testing.TB) bool {
	if testing.Short() {
		leftOut(t.Name())
	}
	return testing.Short()
}

// leftOut records that -short left out a test or subtest.
func leftOut(name string) { record("left", testedPackage(), name, "") }

// Skip skips the test and keeps the reason. The reason is later written into the record of the tests that ran
// (DDTOP_TEST_RECORD).
func Skip(t testing.TB, format string, args ...any) {
	t.Helper()
	reason := fmt.Sprintf(format, args...)
	skipReasons.put(t.Name(), reason)
	t.Skip(reason)
}

// wanted returns the Rubies whose names match DDTOP_TEST_ONLY. If the variable is not set, it returns all.
func wanted(t testing.TB, all discovery) discovery {
	t.Helper()
	pattern := env("DDTOP_TEST_ONLY")
	if pattern == "" {
		return all
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		t.Fatalf("DDTOP_TEST_ONLY=%s: %v", pattern, err)
	}
	var some discovery
	for _, r := range all.rubies {
		if re.MatchString(r.Name) {
			some.rubies = append(some.rubies, r)
		}
	}
	for _, m := range all.missing {
		if re.MatchString(m.name) {
			some.missing = append(some.missing, m)
		}
	}
	return some
}
