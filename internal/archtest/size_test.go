package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	// maxLines is the most lines that a package may have, without its tests.
	maxLines = 6000
	// maxMethods is the most methods that a type may have.
	maxMethods = 40
)

// tooLarge are the packages and types that are above maxLines or maxMethods, with their sizes. No entry may be added,
// and no size may grow.
var tooLarge = map[string]int{
	"recording.wire": 43,
}

// fewMethods are types with a lower limit than maxMethods, because they only pass calls on to other types.
var fewMethods = map[string]int{"ui.Model": 24}

// sizes returns the number of lines of a folder's Go files, without tests, and the number of methods of each type.
// Methods in other.go and _other.go do not count, because these files are only for systems on which ddtop cannot
// sample.
func sizes(t *testing.T, dir string) (lines int, methods map[string]int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	methods = make(map[string]int)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		lines += strings.Count(string(text), "\n")
		f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if base := filepath.Base(name); base == "other.go" || strings.HasSuffix(base, "_other.go") {
			continue
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
				methods[receiver(fn.Recv.List[0].Type)]++
			}
		}
	}
	return lines, methods
}

// receiver returns the name of a method's receiver type, such as Model for (m *Model).
func receiver(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}

// checkSize returns an error text for the size of a package or type, or "" if the size is right. A size that is not in
// tooLarge must be within the limit. A size in tooLarge must not grow, and the list must be updated if it shrinks by
// more than a twentieth. If it is within the limit again, it must be removed from the list.
func checkSize(name, unit string, n, limit int) string {
	was, listed := tooLarge[name]
	switch {
	case listed && n <= limit:
		return fmt.Sprintf("%s has %d %s and is no longer too large: remove it from tooLarge", name, n, unit)
	case listed && n < was-was/20:
		return fmt.Sprintf("%s has shrunk to %d %s: write that into tooLarge", name, n, unit)
	case listed && n > was:
		return fmt.Sprintf("%s has grown from %d to %d %s: it may only shrink", name, was, n, unit)
	case !listed && n > limit:
		return fmt.Sprintf("%s has %d %s, at most %d are allowed", name, n, unit, limit)
	}
	return ""
}

// TestSizes: no package has too many lines, and no type has too many methods. Packages and types in tooLarge are
// exceptions, which may only shrink.
func TestSizes(t *testing.T) {
	root := filepath.Join("..", "..")
	found := make(map[string]bool)
	check := func(name, unit string, n, limit int) {
		found[name] = true
		if wrong := checkSize(name, unit, n, limit); wrong != "" {
			t.Error(wrong)
		}
	}
	err := filepath.WalkDir(root, func(dir string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if strings.HasPrefix(d.Name(), ".") && dir != root {
			return filepath.SkipDir
		}
		rel, err := filepath.Rel(root, dir)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		lines, methods := sizes(t, dir)
		check(name, "lines", lines, maxLines)
		for typ, n := range methods {
			limit, ok := fewMethods[name+"."+typ]
			if !ok {
				limit = maxMethods
			}
			check(name+"."+typ, "methods", n, limit)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range tooLarge {
		if !found[name] {
			t.Errorf("%s is not there any more: remove it from tooLarge", name)
		}
	}
	if len(found) < 500 {
		t.Errorf("only %d packages and types with methods found: the test looks at too little", len(found))
	}
}

func TestSizesAreCompared(t *testing.T) {
	for name, was := range tooLarge {
		for _, n := range []int{1, was - was/20 - 1, was + 1} {
			if checkSize(name, "lines", n, 1) == "" {
				t.Errorf("%s may have %d lines, is listed with %d", name, n, was)
			}
		}
		if wrong := checkSize(name, "lines", was, 1); wrong != "" {
			t.Error(wrong)
		}
	}
	if checkSize("nowhere", "lines", 2, 1) == "" || checkSize("nowhere", "lines", 1, 1) != "" {
		t.Error("what is not listed is not held to the limit")
	}
}
