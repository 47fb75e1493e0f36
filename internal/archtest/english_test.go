package archtest

import (
	"flag"
	"fmt"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

var (
	shrink = flag.Bool("shrink", false, "lower the baselines of TestPlainEnglish to what still fails")
	count  = flag.Bool("count", false, "write the baselines of TestPlainEnglish anew, after branches were merged or folders moved")
)

const (
	// maxColumns is the maximum length of a line of prose, in columns. Two windows of 120 columns fit beside each other
	// on a wide screen.
	maxColumns = 120
	// maxWords limits the words of a sentence. A tired reader keeps about 25 words in mind.
	maxWords = 25
	// maxShown limits how many places a failure of the test lists.
	maxShown = 40
	// tabColumns is the width of a tab, in columns.
	tabColumns = 4
)

// phrases are words and patterns that make a stranger read a text twice, each with the words to write instead. The test
// searches for them in comments and documents. In files that are no tests, it also searches string literals.
var phrases = []struct {
	name    string
	pattern *regexp.Regexp
	instead string
}{
	{"dear", regexp.MustCompile(`(?i)\bdear(er|est)?\b`), "expensive, cost"},
	{"cannot-be-had", regexp.MustCompile(`(?i)\b(can't|cannot|can not|can) be had\b`), "cannot read, is missing"},
	{"by-far", regexp.MustCompile(`(?i)\bby far the most\b`), "most"},
	{"one-and-the-same", regexp.MustCompile(`(?i)\bone and the same\b`), "the same"},
	{"as-far-as", regexp.MustCompile(`(?i)\b(as|in so) far as\b`), "if, when"},
	{"as-long-as", regexp.MustCompile(`(?i)\bas long as\b`), "while"},
	{"where-condition", regexp.MustCompile(`(?i)\bwhere (that|there|none|one) (is|are|was|were|has|have)\b`), "if, when, unless"},
	{"nobody", regexp.MustCompile(`(?i)\b(nobody|somebody|whoever|whom)\b`), "no thread, a caller, a user"},
	{"passive-look", regexp.MustCompile(`(?i)\b(it|is) (is )?(looked|asked|tried|told|said|taken care) (who|whether|how|again|for|of)\b`),
		"the subject and an active verb"},
	{"which-is-said", regexp.MustCompile(`(?i)\b(which|that) is (said|told)\b|\bsaid to be\b|\bis told\b`), "ddtop reports"},
	{"for-because", regexp.MustCompile(`, for (it|they|the|that|what|who|its|there|this|no|these|nobody)\b`), "because"},
	{"look-noun", regexp.MustCompile(`(?i)\b(a|each|the|last|next|first|ten|every|latest|of|two) looks?\b`), "sample"},
	{"stretch", regexp.MustCompile(`(?i)\bstretch(es)?\b`), "interval"},
	{"for-want-of", regexp.MustCompile(`(?i)\bfor want of\b`), "because there is no"},
	{"some-number", regexp.MustCompile(`\b[Ss]ome \d`), "about"},
	{"tells-of", regexp.MustCompile(`(?i)\btells? (of|who|which|whether|nothing|how)\b`), "reports, shows"},
	{"that-of", regexp.MustCompile(`(?i)\b(that|those) of\b`), "the thing itself"},
	{"who-subject", regexp.MustCompile(`(?:^|[.;] )Who [a-z]+s\b`), "Callers that"},
	{"history", regexp.MustCompile(`(?i)\b(used to (be|have|do)|no longer|any ?more)\b`), "what is, not what was"},
	{"issue-number", regexp.MustCompile(`(?:^|[^#\w] ?)#\d{2,5}\b`), "the reason"},
	{"zero-value", regexp.MustCompile(`(?:^|[;.,(] ?)(0|nil|zero|-1|""|false|true): `), `a sentence: "It is zero if …"`},
}

// These rules are about the length of lines and sentences, not about a phrase.
const (
	ruleColumns  = "line-length"
	ruleSentence = "sentence-length"
	ruleSemi     = "semicolons"
)

// piece is a piece of prose: a comment, a paragraph or list item of a document, a row of a table, or a string literal.
type piece struct {
	line int
	text string
	// phrasesOnly is true for text in which the test only searches for phrases. It does not check the lengths of its
	// sentences.
	phrasesOnly bool
}

// fault is a line of prose that breaks a rule of plain English.
type fault struct{ rule, place, text string }

var (
	codeSpan  = regexp.MustCompile("`[^`]*`")
	linkText  = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	sentences = regexp.MustCompile(`[.!?:]["')*]*(\s+|$)`)
	shortened = regexp.MustCompile(`\b(e\.g|i\.e|etc|vs|approx)\.`)
	listItem  = regexp.MustCompile(`^\s*([*-]|\d+\.) `)
	verbs     = regexp.MustCompile(`%[-+# 0-9.]*[a-zA-Z]`)
	webPlace  = regexp.MustCompile(`https?://`)
	directive = regexp.MustCompile(`^//(go:|nolint|export |line )`)
)

// faultsOf returns the faults in a piece of prose of a file.
func faultsOf(file string, p piece) (out []fault) {
	place := fmt.Sprintf("%s:%d", file, p.line)
	text := strings.Join(strings.Fields(p.text), " ") // a phrase may go on in the next line
	text = linkText.ReplaceAllString(codeSpan.ReplaceAllString(text, "CODE"), "$1")
	for _, x := range phrases {
		for _, m := range x.pattern.FindAllString(text, -1) {
			out = append(out, fault{x.name, place, fmt.Sprintf("%q: write %s", strings.TrimSpace(m), x.instead)})
		}
	}
	if p.phrasesOnly {
		return out
	}
	text = shortened.ReplaceAllString(text, "$1")
	for len(text) > 0 {
		end := len(text)
		if at := sentences.FindStringIndex(text); at != nil {
			end = at[1]
		}
		sentence := strings.TrimSpace(text[:end])
		text = text[end:]
		if n := len(strings.Fields(sentence)); n > maxWords {
			out = append(out, fault{ruleSentence, place, fmt.Sprintf("%d words: %s", n, sentence)})
		}
		if strings.Count(sentence, ";") > 1 {
			out = append(out, fault{ruleSemi, place, sentence})
		}
	}
	return out
}

// columns returns a fault if a line is too long. A line with a URL may have any length.
func columns(file string, line int, text string) []fault {
	n := utf8.RuneCountInString(strings.ReplaceAll(text, "\t", strings.Repeat(" ", tabColumns)))
	if n <= maxColumns || webPlace.MatchString(text) {
		return nil
	}
	return []fault{{ruleColumns, fmt.Sprintf("%s:%d", file, line), fmt.Sprintf("%d columns", n)}}
}

// faultsOfDocument checks the text of a Markdown file, without its blocks of code. Lines and sentences of its tables
// may have any length.
func faultsOfDocument(file, text string) (out []fault) {
	var p piece
	flush := func() {
		if p.text != "" {
			out = append(out, faultsOf(file, p)...)
		}
		p = piece{}
	}
	code, n := false, 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\n")
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		switch {
		case fence:
			code = !code
			flush()
			continue
		case code:
			continue
		}
		table := strings.HasPrefix(line, "|")
		if !table {
			out = append(out, columns(file, n, line)...)
		}
		if strings.TrimSpace(line) == "" {
			flush()
			continue
		}
		if table || listItem.MatchString(line) || strings.HasPrefix(line, "#") {
			flush()
		}
		if p.text == "" {
			p.line, p.phrasesOnly = n, table
		}
		p.text += strings.TrimSpace(line) + "\n"
	}
	flush()
	return out
}

// faultsOfGo checks the comments of a Go file. If the file is no test, it also searches the string literals for
// phrases.
func faultsOfGo(file string, src []byte) (out []fault, err error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(string(src), "\n")
	for _, group := range f.Comments {
		var p piece
		flush := func() {
			if p.text != "" {
				out = append(out, faultsOf(file, p)...)
			}
			p = piece{}
		}
		for _, c := range group.List {
			line := set.Position(c.Pos()).Line
			if directive.MatchString(c.Text) {
				continue
			}
			body := strings.TrimPrefix(c.Text, "//")
			if strings.HasPrefix(lines[line-1], "\t") && strings.HasPrefix(strings.TrimSpace(lines[line-1]), "//") || strings.HasPrefix(lines[line-1], "//") {
				out = append(out, columns(file, line, lines[line-1])...)
			}
			if words := strings.TrimSpace(body); words == "" || strings.HasPrefix(words, "|") || strings.HasPrefix(body, "\t") || listItem.MatchString(body) {
				flush()
				if !listItem.MatchString(body) {
					continue
				}
			}
			if p.text == "" {
				p.line = line
			}
			p.text += strings.TrimSpace(body) + "\n"
		}
		flush()
	}
	if strings.HasSuffix(file, "_test.go") {
		return out, nil
	}
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile(file, -1, len(src)), src, nil, 0)
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return out, nil
		}
		if tok == token.STRING && strings.Count(lit, " ") > 1 {
			line := 1 + strings.Count(string(src[:int(pos)-1]), "\n")
			out = append(out, faultsOf(file, piece{line, verbs.ReplaceAllString(strings.Trim(lit, "\"`"), "X"), true})...)
		}
	}
}

// folderOf returns the folder under which a file's faults are counted: docs/X, internal/X or the file's top folder.
// Code can move within this folder without a change of the allowed counts (baseline).
func folderOf(file string) string {
	parts := strings.Split(path.Dir(file), "/")
	if parts[0] == "." {
		return "root"
	}
	if (parts[0] == "docs" || parts[0] == "internal") && len(parts) > 1 {
		return parts[0] + "-" + parts[1]
	}
	return parts[0]
}

// projectFaults returns the faults of all comments and documents of the project, by folder.
func projectFaults(t *testing.T, root string) map[string][]fault {
	t.Helper()
	out := make(map[string][]fault)
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		name := filepath.ToSlash(rel)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "dist" || name != "." && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case d.IsDir(), name == "internal/archtest/english_test.go", name == "CHANGELOG.md":
			return nil
		}
		ext := path.Ext(name)
		if ext != ".go" && ext != ".md" {
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		var found []fault
		if ext == ".md" {
			found = faultsOfDocument(name, string(text))
		} else if found, err = faultsOfGo(name, text); err != nil {
			return err
		}
		folder := folderOf(name)
		out[folder] = append(out[folder], found...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// baseline is how many known faults of each rule a folder may still have.
type baseline map[string]int

func baselineFile(folder string) string { return filepath.Join("testdata", "english", folder+".txt") }

func readBaseline(folder string) (baseline, error) {
	text, err := os.ReadFile(baselineFile(folder))
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	b := make(baseline)
	for line := range strings.Lines(string(text)) {
		var rule string
		var n int
		if _, err := fmt.Sscanf(line, "%s %d", &rule, &n); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", baselineFile(folder), line, err)
		}
		b[rule] = n
	}
	return b, nil
}

func (b baseline) write(folder string) error {
	var s strings.Builder
	for _, rule := range slices.Sorted(maps.Keys(b)) {
		if b[rule] > 0 {
			fmt.Fprintf(&s, "%s %d\n", rule, b[rule])
		}
	}
	if s.Len() == 0 {
		if err := os.Remove(baselineFile(folder)); err != nil && !os.IsNotExist(err) {
			return err
		}
		return nil
	}
	return os.WriteFile(baselineFile(folder), []byte(s.String()), 0o644)
}

// compare compares the faults that the test found in a folder with the allowed numbers. worse has the faults above
// these numbers. left is the new baseline. It is lower if there are fewer faults than allowed, and never higher.
func compare(found []fault, allowed baseline) (worse []string, left baseline) {
	left = make(baseline)
	places := make(map[string][]fault)
	for _, f := range found {
		places[f.rule] = append(places[f.rule], f)
	}
	for _, rule := range slices.Sorted(maps.Keys(places)) {
		n := len(places[rule])
		left[rule] = min(n, allowed[rule])
		if n <= allowed[rule] {
			continue
		}
		worse = append(worse, fmt.Sprintf("%s: %d, of which %d are allowed. One of these is new:", rule, n, allowed[rule]))
		for i, f := range places[rule] {
			if i == maxShown {
				worse = append(worse, "  …")
				break
			}
			worse = append(worse, "  "+f.place+": "+f.text)
		}
	}
	return worse, left
}

// TestPlainEnglish: comments, documents and texts keep the rules of docs/internals/contributing.md#plain-english. The
// number of known faults is in testdata/english, by folder and rule. If there are more faults than that, the test
// fails. If there are fewer, the test asks to lower the number in the file.
func TestPlainEnglish(t *testing.T) {
	found := projectFaults(t, filepath.Join("..", ".."))
	if len(found) < 10 {
		t.Fatalf("only %d folders have prose: the test looks at too little", len(found))
	}
	files, err := filepath.Glob(baselineFile("*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		folder := strings.TrimSuffix(filepath.Base(f), ".txt")
		found[folder] = append(found[folder], []fault{}...)
	}
	for _, folder := range slices.Sorted(maps.Keys(found)) {
		allowed, err := readBaseline(folder)
		if err != nil {
			t.Fatal(err)
		}
		worse, left := compare(found[folder], allowed)
		if *count {
			left = make(baseline)
			for _, f := range found[folder] {
				left[f.rule]++
			}
			worse = nil
		}
		if len(worse) > 0 {
			t.Errorf("%s:\n%s", folder, strings.Join(worse, "\n"))
		}
		if maps.Equal(left, allowed) {
			continue
		}
		if !*shrink && !*count {
			t.Errorf("%s has less faults than %s allows; make it smaller: go test ./internal/archtest -run PlainEnglish -shrink",
				folder, baselineFile(folder))
		} else if err := left.write(folder); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPagesSayWhatTheyAreFor: every document begins by saying what a reader can do after reading it.
func TestPagesSayWhatTheyAreFor(t *testing.T) {
	root := filepath.Join("..", "..", "docs")
	pages := 0
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || path.Ext(p) != ".md" {
			return err
		}
		text, err := os.ReadFile(p)
		pages++
		_, rest, _ := strings.Cut(string(text), "\n")
		if !strings.HasPrefix(strings.TrimSpace(rest), "After reading this page you ") {
			t.Errorf("%s does not begin with \"After reading this page you …\"", p)
		}
		return err
	})
	if err != nil || pages < 20 {
		t.Fatalf("%d pages, %v", pages, err)
	}
}

func TestFaultsAreFound(t *testing.T) {
	long := strings.Repeat("word ", maxWords) + "end."
	for text, want := range map[string]string{
		"Reading is dear.":                "dear",
		"It can't be had.":                "cannot-be-had",
		"It ends, for it is full.":        "for-because",
		"Who keeps IDs must forget them.": "who-subject",
		"n counts. 0: it goes on":         "zero-value",
		"See #1234.":                      "issue-number",
		"It is looked whether it waits.":  "passive-look",
		"a; b; c":                         ruleSemi,
		long:                              ruleSentence,
		"Short. " + long:                  ruleSentence,
		"An expensive read. It fails if `dear: nil`.":   "",
		strings.TrimSuffix(long, " end.") + ". A word.": "",
	} {
		rules := make([]string, 0, 1)
		for _, f := range faultsOf("f", piece{1, text, false}) {
			rules = append(rules, f.rule)
		}
		if got := strings.Join(rules, " "); got != want {
			t.Errorf("%q breaks %q, want %q", text, got, want)
		}
	}
	wide := strings.Repeat("x", maxColumns+1)
	doc := "# Title\n\n" + wide + "\n| " + wide + " |\n```\n" + wide + " is dear\n```\nhttps://" + wide + "\n* a\n* dear\n"
	got := faultsOfDocument("a.md", doc)
	want := []fault{{ruleColumns, "a.md:3", "121 columns"}, {"dear", "a.md:10", `"dear": write expensive, cost`}}
	if !slices.Equal(got, want) {
		t.Errorf("a document: %v", got)
	}
	src := "package p\n\n// A is dear.\n//\n//\tdear code\n//go:generate dear\nvar A = \"that is dear\" // " + wide + "\n\n// " + wide + "\nvar B = `dear`\n"
	got, err := faultsOfGo("a.go", []byte(src))
	rules := make([]string, 0, 3)
	for _, f := range got {
		rules = append(rules, f.rule+" "+f.place)
	}
	slices.Sort(rules)
	if want := []string{"dear a.go:3", "dear a.go:7", ruleColumns + " a.go:9"}; err != nil || !slices.Equal(rules, want) {
		t.Errorf("a Go file: %v, %v", rules, err)
	}
}

func TestBaselinesOnlyShrink(t *testing.T) {
	found := []fault{{"dear", "a:1", "x"}, {"dear", "a:2", "y"}, {"stretch", "a:3", "z"}}
	worse, left := compare(found, baseline{"dear": 1, "stretch": 5, "gone": 2})
	if len(worse) != 3 || !strings.Contains(worse[0], "dear: 2, of which 1") || !maps.Equal(left, baseline{"dear": 1, "stretch": 1}) {
		t.Errorf("%q, %v", worse, left)
	}
	if worse, left := compare(found, baseline{"dear": 2, "stretch": 1}); len(worse) != 0 || !maps.Equal(left, baseline{"dear": 2, "stretch": 1}) {
		t.Errorf("%q, %v", worse, left)
	}
}
