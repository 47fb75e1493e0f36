package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	quoted   = regexp.MustCompile("`([^`]+)`")
	filePath = regexp.MustCompile(`^[\w.*-]+(/[\w.*-]+)*/[\w.*-]+\.(go|json|golden)$`)
	goName   = regexp.MustCompile(`^(?:\w+\.)?([A-Za-z]\w*)$`)
)

// missing checks a line of docs/internals/architecture.md. It returns the files in the line that do not exist below
// root. If the line is a table row that begins with Go files, missing also checks the names in the row: it returns the
// names that are in none of these files. A path with NAME is a placeholder for a file that a reader would add, so this
// file need not exist.
func missing(t *testing.T, root, line string) (out []string) {
	t.Helper()
	var source strings.Builder
	var names []string
	first, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
	ofFiles := strings.HasPrefix(line, "| ") && strings.Contains(first, ".go`")
	for _, m := range quoted.FindAllStringSubmatch(line, -1) {
		switch word := m[1]; {
		case filePath.MatchString(word) && !strings.Contains(word, "NAME"):
			files, err := filepath.Glob(filepath.Join(root, word))
			if err != nil || len(files) == 0 {
				out = append(out, word)
			}
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				source.Write(text)
			}
		case ofFiles && goName.MatchString(word):
			names = append(names, goName.FindStringSubmatch(word)[1])
		}
	}
	for _, name := range names {
		if source.Len() > 0 && !regexp.MustCompile(`\b`+name+`\b`).MatchString(source.String()) {
			out = append(out, name)
		}
	}
	return out
}

// TestPlacesOfChangesExist: the files and names that docs/internals/architecture.md mentions exist.
func TestPlacesOfChangesExist(t *testing.T) {
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, "docs", "internals", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		for _, what := range missing(t, root, line) {
			t.Errorf("docs/internals/architecture.md names %q, which is not there: %s", what, line)
		}
	}
	for line, want := range map[string]string{
		"| `ui/page/threads/threads.go`, `build` | of `TableRow` |":             "",
		"| `ui/page/threads/threads.go`, `build` | `newTableColumns` does it |": "newTableColumns",
		"rules are in `gvl/nowhere.go`, of `export/NAME.go`":                    "gvl/nowhere.go",
	} {
		if got := strings.Join(missing(t, root, line), " "); got != want {
			t.Errorf("in %q %q is missing, want %q", line, got, want)
		}
	}
}
