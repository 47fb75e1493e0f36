// Package workload starts the order service, a multi-threaded Ruby program with a different, realistic problem in each
// phase. `ddtop demo`, tests and the README's pictures use it. It is plain Ruby (2.5 and later, standard library only),
// embedded in the binary. Start unpacks it into a private folder.
package workload

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed program
var program embed.FS

// mainFile is the program's main file in the unpacked folder.
const mainFile = "order_service.rb"

// Phases returns the names of the phases, in the order in which they run.
//
//   - healthy: requests, jobs and small reports, nothing wrong
//   - hog: the thread "reports" computes in Ruby without end
//   - mutex: all requests go through one Mutex, held during queries
//   - database: every query takes 250 to 900 ms
//   - gc: two workers make garbage and keep some of it
//   - stall: "worker-1" calls a C function that blocks with the GVL held
//   - routes: one request in 45 computes a report, which makes all others wait for the GVL
func Phases() []string {
	return []string{"healthy", "hog", "mutex", "database", "gc", "stall", "routes"}
}

// CheckPhase returns an error unless name is the name of a phase, or "", which means all phases.
func CheckPhase(name string) error {
	if name == "" || slices.Contains(Phases(), name) {
		return nil
	}
	return fmt.Errorf("there is no phase %q in the workload: the phases are %s", name, strings.Join(Phases(), ", "))
}

// unpack writes the Ruby program into dir, which must exist, and returns the path of the file to run.
func unpack(dir string) (string, error) {
	root, err := fs.Sub(program, "program")
	if err != nil {
		return "", fmt.Errorf("unpacking the workload: %w", err)
	}
	err = fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(dir, filepath.FromSlash(name))
		if entry.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		return os.WriteFile(target, text, 0o644)
	})
	if err != nil {
		return "", fmt.Errorf("unpacking the workload into %s: %w", dir, err)
	}
	return filepath.Join(dir, mainFile), nil
}
