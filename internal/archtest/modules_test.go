package archtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestModulesAgree: a separate Go module builds the releases of ddtop. Its go.mod must require every module that ddtop
// is linked from, or Go refuses to build. The test only reads files, so it does not download what that module requires.
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
