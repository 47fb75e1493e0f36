package archtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestModulesAgree: the module that builds the release requires all modules that ddtop is linked from. Otherwise Go
// refuses to build it. The test reads files only, so it does not need that module's own modules.
func TestModulesAgree(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "../..").Output()
	if err != nil {
		t.Fatal(err)
	}
	linked := slices.Compact(slices.Sorted(slices.Values(strings.Fields(string(out)))))
	if len(linked) < 10 {
		t.Fatalf("ddtop is linked from %v", linked)
	}
	const folder, self = "packaging/build", "github.com/ddtop/ddtop"
	file, err := os.ReadFile(filepath.Join("../..", folder, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	required := strings.Fields(string(file))
	for _, module := range linked {
		if module != self && !slices.Contains(required, module) {
			t.Errorf("%s: go.mod lacks %s: run go -C %s mod tidy", folder, module, folder)
		}
	}
}
