package rubytest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
)

// debian lists Debian's Rubies that scripts/rubies provides. Each is in its own root, a folder for chroot. name is the
// name of the root.
var debian = []struct{ name, release string }{
	{"debian-2.7", "2.7"},
	{"debian-3.1", "3.1"},
	{"debian-3.3", "3.3"},
	{"debian-3.4", "3.4"},
}

// foreign lists Debian's Rubies for other CPU architectures that scripts/rubies provides. arch is the architecture as
// in GOARCH. emulator is the path of the emulator that the script puts into the root, the folder for chroot.
var foreign = []struct{ name, release, arch, emulator string }{
	{"debian-2.7-arm64", "2.7", "arm64", "/usr/bin/qemu-aarch64-static"},
	{"debian-3.1-arm64", "3.1", "arm64", "/usr/bin/qemu-aarch64-static"},
	{"debian-3.3-arm64", "3.3", "arm64", "/usr/bin/qemu-aarch64-static"},
	{"debian-3.4-arm64", "3.4", "arm64", "/usr/bin/qemu-aarch64-static"},
}

// musl lists the Rubies that scripts/rubies builds with the C library musl. name is the name of a Ruby's root, the
// folder for chroot.
var musl = []struct{ name, release string }{{"debian-3.3-musl", "3.3"}}

// Kinds returns all Rubies that scripts/rubies can provide, even those that this machine lacks. Only the fields Name
// and Version are set. Version has only the release, such as "3.3".
func Kinds() []Ruby {
	var all []Ruby
	for _, d := range debian {
		all = append(all, Ruby{Name: d.name, Version: d.release})
	}
	for _, m := range musl {
		all = append(all, Ruby{Name: m.name, Version: m.release})
	}
	for _, f := range foreign {
		all = append(all, Ruby{Name: f.name, Version: f.release})
	}
	return all
}

// discovery is the result of a search for the Rubies of this machine. Each test binary searches only once.
type discovery struct {
	rubies  []Ruby
	missing []missing
}

var discover = sync.OnceValue(func() discovery {
	var d discovery
	roots, err := debianRoots("native")
	for _, want := range debian {
		d.add(roots, err, want.name, want.release)
	}
	d.rubies = append(d.rubies, hostRubies()...)
	return d
})

// discoverForeign finds the Rubies for other CPU architectures, which run in an emulator. It leaves out Rubies for the
// architecture of this machine, because they need no emulator.
var discoverForeign = sync.OnceValue(func() discovery {
	var d discovery
	roots, err := debianRoots("foreign")
	for _, want := range foreign {
		if r, ok := roots[want.name]; ok && want.arch != runtime.GOARCH {
			r.Emulator = want.emulator
			roots[want.name] = r
		}
		d.add(roots, err, want.name, want.release)
	}
	return d
})

// discoverMusl finds the Rubies that are linked with musl. It does not build missing ones.
var discoverMusl = sync.OnceValue(func() discovery {
	var d discovery
	script, err := scriptPath()
	var out []byte
	if err == nil && runtime.GOOS == "linux" {
		out, _ = exec.Command(script, "--list", "musl").Output() // the script fails if a Ruby is missing
	}
	roots := parseRoots(out)
	for _, want := range musl {
		d.add(roots, err, want.name, want.release)
	}
	return d
})

// add adds a wanted Ruby if scripts/rubies has installed it in a root (a folder for chroot). Otherwise it notes why the
// root is missing.
func (d *discovery) add(roots map[string]Ruby, err error, name, release string) {
	r, ok := roots[name]
	switch {
	case ok:
		d.rubies = append(d.rubies, r)
	case err != nil:
		d.missing = append(d.missing, missing{name, release, err.Error()})
	default:
		d.missing = append(d.missing, missing{name, release, "scripts/rubies did not provide it"})
	}
}

var rubiesLine = regexp.MustCompile(`^(debian-([0-9.]+)(?:-[a-z0-9]+)?) ([0-9.]+) (/.+)$`)

// debianRoots returns the roots (folders for chroot) of Debian's Rubies, from scripts/rubies. The parameter which
// selects "native" or "foreign" roots. The script first installs missing roots. If this fails, debianRoots returns the
// roots that exist, and an error.
func debianRoots(which string) (map[string]Ruby, error) {
	if runtime.GOOS != "linux" {
		return nil, errors.New("the Rubies of Debian run on Linux only")
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("chroot into Debian's Rubies needs root: run the tests with sudo")
	}
	script, err := scriptPath()
	if err != nil {
		return nil, err
	}
	out, errList := exec.Command(script, "--list", which).Output()
	if errList == nil {
		return parseRoots(out), nil
	}
	cmd := exec.Command(script, which)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err = cmd.Output()
	if err != nil {
		err = fmt.Errorf("scripts/rubies: %w: %s", err, strings.ReplaceAll(strings.TrimSpace(stderr.String()), "\n", "; "))
	}
	return parseRoots(out), err
}

func parseRoots(out []byte) map[string]Ruby {
	roots := make(map[string]Ruby)
	for line := range strings.Lines(string(out)) {
		m := rubiesLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		roots[m[1]] = Ruby{Name: m[1], Version: m[3], Root: m[4], Bin: "/usr/bin/ruby" + m[2]}
	}
	return roots
}

// scriptPath finds the script scripts/rubies of the repository. It searches upward from the folder of the tested
// package, which can be in another module, such as internal/rivals. The script must be beside a go.mod.
func scriptPath() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		script := filepath.Join(dir, "scripts", "rubies")
		_, err := os.Stat(script)
		if _, noModule := os.Stat(filepath.Join(dir, "go.mod")); err == nil && noModule == nil {
			return script, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("scripts/rubies: no folder from the test's folder upward has it beside a go.mod")
		}
		dir = parent
	}
}

// hostRubies returns the CRubies of this machine: those on PATH, in rbenv and under /opt/rubies, and those that
// DDTOP_TEST_RUBIES names. An executable that is found twice counts once.
func hostRubies() []Ruby {
	candidates := filepath.SplitList(env("DDTOP_TEST_RUBIES"))
	if onPath, err := exec.LookPath("ruby"); err == nil {
		candidates = append(candidates, onPath)
	}
	globs := []string{"/opt/rubies/*/bin/ruby"}
	if home, err := os.UserHomeDir(); err == nil {
		globs = append(globs, filepath.Join(home, ".rbenv/versions/*/bin/ruby"))
	}
	for _, g := range globs {
		matches, err := filepath.Glob(g)
		if err == nil {
			candidates = append(candidates, matches...)
		}
	}
	var rubies []Ruby
	seen := make(map[string]bool)
	names := make(map[string]int)
	for _, c := range candidates {
		r, ok := probe(c)
		if !ok || seen[r.Bin] {
			continue
		}
		seen[r.Bin] = true
		r.Name = "host-" + r.Version
		if names[r.Name]++; names[r.Name] > 1 {
			r.Name = fmt.Sprintf("%s-%d", r.Name, names[r.Name])
		}
		rubies = append(rubies, r)
	}
	return rubies
}

// probe runs a Ruby to find out its version. path is an executable or a folder in which a Ruby is installed. If path is
// a shim of rbenv, the result names the real executable. ok is false for other engines (JRuby, TruffleRuby).
func probe(path string) (Ruby, bool) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, "bin", "ruby")
	}
	out, err := exec.Command(path, "--disable=gems", "-rrbconfig", "-e", "puts RUBY_ENGINE, RUBY_VERSION, RbConfig.ruby").Output()
	if err != nil {
		return Ruby{}, false
	}
	fields := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(fields) != 3 || fields[0] != "ruby" {
		return Ruby{}, false
	}
	bin, err := filepath.EvalSymlinks(fields[2])
	if err != nil {
		return Ruby{}, false
	}
	return Ruby{Version: fields[1], Bin: bin}, true
}
