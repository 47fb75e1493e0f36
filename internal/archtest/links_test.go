package archtest

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// inComment matches the path of a document in a comment, with or without a heading of the document. The path begins at
// the repository's root, as in docs/internals/gc.md#reasons.
var inComment = regexp.MustCompile(`\b(docs/[\w/-]+\.md)(#[\w-]+)?`)

// inDocument matches two kinds of links in a document: to a file, by a path relative to the document, and to a heading
// of the same document. It does not match links with a scheme such as https, because these lead to other sites.
var inDocument = regexp.MustCompile(`\]\(([^)#:]*)(#[^)]+)?\)`)

// link is a link to a file, and maybe to a heading in it. from and file are paths from the repository's root.
type link struct {
	from, file, heading string
}

// linksIn returns the links in a file's text.
func linksIn(from, text string) []link {
	var found []link
	if path.Ext(from) != ".md" {
		for _, m := range inComment.FindAllStringSubmatch(text, -1) {
			found = append(found, link{from, m[1], strings.TrimPrefix(m[2], "#")})
		}
		return found
	}
	for _, m := range inDocument.FindAllStringSubmatch(text, -1) {
		l := link{from, from, strings.TrimPrefix(m[2], "#")}
		if m[1] != "" {
			l.file = path.Join(path.Dir(from), m[1])
		}
		found = append(found, l)
	}
	return found
}

// headings returns the anchors that GitHub makes of a document's headings.
func headings(text string) map[string]bool {
	names := make(map[string]bool)
	code := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && line[0] == '#' && !code {
			names[strings.Map(func(r rune) rune {
				switch {
				case r == ' ':
					return '-'
				case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
					return unicode.ToLower(r)
				}
				return -1
			}, strings.TrimSpace(title))] = true
		}
	}
	return names
}

// TestLinksLeadSomewhere: if a comment or a document links to a file, the file exists. If the link names a heading, the
// file has this heading.
func TestLinksLeadSomewhere(t *testing.T) {
	root := filepath.Join("..", "..")
	var links []link
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, p)
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case name == filepath.Join("internal", "archtest", "links_test.go"), path.Ext(name) != ".go" && path.Ext(name) != ".md":
			return nil
		}
		text, err := os.ReadFile(p)
		links = append(links, linksIn(filepath.ToSlash(name), string(text))...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	known := make(map[string]map[string]bool) // by document
	internals := 0
	for _, l := range links {
		if strings.HasPrefix(l.file, "docs/internals/") && path.Ext(l.from) == ".go" {
			internals++
		}
		if l.heading == "" {
			if _, err := os.Stat(filepath.Join(root, l.file)); err != nil {
				t.Errorf("%s: %v", l.from, err)
			}
			continue
		}
		if known[l.file] == nil {
			text, err := os.ReadFile(filepath.Join(root, l.file))
			if err != nil {
				t.Errorf("%s: %v", l.from, err)
				continue
			}
			known[l.file] = headings(string(text))
		}
		if !known[l.file][l.heading] {
			t.Errorf("%s: %s has no heading #%s", l.from, l.file, l.heading)
		}
	}
	if internals < 30 {
		t.Errorf("only %d links of comments to docs/internals found: the test looks at too little", internals)
	}
}

func TestLinksAreFound(t *testing.T) {
	for _, c := range []struct {
		from, text string
		want       link
	}{
		{"gvl/a.go", "// (docs/internals/gc.md#reasons).", link{"gvl/a.go", "docs/internals/gc.md", "reasons"}},
		{"gvl/a.go", "// docs/states.md says how.", link{"gvl/a.go", "docs/states.md", ""}},
		{"docs/a.md", "[x](b.md#c-d)", link{"docs/a.md", "docs/b.md", "c-d"}},
		{"docs/a/b.md", "see [x](../c.md).", link{"docs/a/b.md", "docs/c.md", ""}},
		{"docs/a.md", "[below](#e)", link{"docs/a.md", "docs/a.md", "e"}},
	} {
		if got := linksIn(c.from, c.text); len(got) != 1 || got[0] != c.want {
			t.Errorf("%s %q: got %v, want %v", c.from, c.text, got, c.want)
		}
	}
	if got := linksIn("README.md", "[x](https://example.org/a.md)"); len(got) != 0 {
		t.Errorf("another site is taken for a file: %v", got)
	}
	got := headings("# Title\ntext\n## Ruby's `--pause`, told\n```\n# no heading\n```\n")
	if len(got) != 2 || !got["title"] || !got["rubys---pause-told"] {
		t.Errorf("headings %v", got)
	}
}
