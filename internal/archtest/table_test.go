package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// documentedRules reads the table of packages in docs/internals/architecture.md. It returns what each package may
// import.
func documentedRules(text string) map[string][]string {
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\|[^|]*\\|([^|]*)\\|$")
	name := regexp.MustCompile("`([^`]+)`")
	_, table, _ := strings.Cut(text, "\n| package | does | may import |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	found := make(map[string][]string)
	for _, m := range row.FindAllStringSubmatch(table, -1) {
		found[m[1]] = []string{}
		for _, imported := range name.FindAllStringSubmatch(m[2], -1) {
			found[m[1]] = append(found[m[1]], imported[1])
		}
	}
	return found
}

// TestDocsHaveTheRules: the table in docs/internals/architecture.md lists the same allowed imports as the variable
// rules. It also names the packages that only tests use.
func TestDocsHaveTheRules(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "internals", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := documentedRules(string(b))
	for name, allowed := range rules {
		said, ok := documented[name]
		if !ok {
			if name != "." && !strings.Contains(string(b), "`"+name+"`") {
				t.Errorf("docs/internals/architecture.md does not name %s", name)
			}
			continue
		}
		slices.Sort(said)
		if want := slices.Sorted(slices.Values(allowed)); !slices.Equal(said, want) {
			t.Errorf("docs/internals/architecture.md: %s may import %v, the rule says %v", name, said, want)
		}
	}
	for name := range documented {
		if _, ok := rules[name]; !ok {
			t.Errorf("docs/internals/architecture.md has %s, of which there is no rule", name)
		}
	}
	for _, name := range pure {
		if _, ok := documented[name]; !ok {
			t.Errorf("docs/internals/architecture.md does not say what %s may import", name)
		}
	}
}
