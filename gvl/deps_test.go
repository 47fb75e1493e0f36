package gvl

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestPure: of this module's packages, gvl and the packages below it may import only each other and the packages in
// allowed. So they cannot touch a process, memory, a file or a clock.
func TestPure(t *testing.T) {
	list := func(args ...string) []string {
		out, err := exec.Command("go", append([]string{"list"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("go list %v: %v\n%s", args, err, out)
		}
		return strings.Fields(string(out))
	}
	const module = "github.com/ddtop/ddtop/"
	allowed := []string{"sampler", "sampler/exact", "sampler/intern", "internal/sorting", "internal/units", "report"}
	for _, p := range list("-deps", "./...") {
		own, ours := strings.CutPrefix(p, module)
		if ours && !strings.HasPrefix(own, "gvl") && !slices.Contains(allowed, own) || p == "os/exec" || p == "net" ||
			strings.HasPrefix(p, "golang.org/x/sys") {
			t.Errorf("gvl depends on %s", p)
		}
	}
	direct := list("-f", `{{join .Imports "\n"}}`, "./...")
	for _, p := range []string{"os", "io", "io/fs", "syscall", "time", "unsafe", "path/filepath"} {
		if slices.Contains(direct, p) {
			t.Errorf("gvl imports %s", p)
		}
	}
}
