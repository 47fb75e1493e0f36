package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// rooms are the groups of packages whose sizes are limited.
var rooms = []string{"ui", "internal/cli"}

const (
	// maxLines is how many lines a package may have, without its tests.
	maxLines = 6000
	// maxMethods is how many methods a type may have.
	maxMethods = 40
)

// fewMethods are types that may have less methods than others: they only pass on what others do.
var fewMethods = map[string]int{"ui.Model": 24}

// sizes returns the lines of the Go files of a folder without tests, and how many methods each type has.
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
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
				methods[receiver(fn.Recv.List[0].Type)]++
			}
		}
	}
	return lines, methods
}

// receiver is the name of the type of a method.
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

// TestSizes: no package has too many lines, no type too many methods.
func TestSizes(t *testing.T) {
	root := filepath.Join("..", "..")
	seen := 0
	for _, room := range rooms {
		err := filepath.WalkDir(filepath.Join(root, room), func(dir string, d os.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return err
			}
			name, err := filepath.Rel(root, dir)
			if err != nil {
				return err
			}
			lines, methods := sizes(t, dir)
			if lines > maxLines {
				t.Errorf("%s has %d lines, at most %d are allowed", name, lines, maxLines)
			}
			for typ, n := range methods {
				limit, ok := fewMethods[filepath.ToSlash(name)+"."+typ]
				if !ok {
					limit = maxMethods
				}
				if n > limit {
					t.Errorf("%s.%s has %d methods, at most %d are allowed", name, typ, n, limit)
				}
				seen++
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen < 50 {
		t.Errorf("only %d types with methods found: the test looks at too little", seen)
	}
}
