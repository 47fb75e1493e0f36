package report

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// TestDocsNameEveryKey: docs/reference/json.md describes every key of ddtop's JSON documents.
func TestDocsNameEveryKey(t *testing.T) {
	b, err := os.ReadFile("../docs/reference/json.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(b)
	seen := map[reflect.Type]bool{}
	keys := 0
	var walk func(reflect.Type)
	walk = func(x reflect.Type) {
		for x.Kind() == reflect.Pointer || x.Kind() == reflect.Slice {
			x = x.Elem()
		}
		if x.Kind() != reflect.Struct || seen[x] {
			return
		}
		seen[x] = true
		for i := range x.NumField() {
			f := x.Field(i)
			if !f.IsExported() {
				continue
			}
			if f.Anonymous {
				walk(f.Type)
				continue
			}
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if key == "-" { // the field is not in the JSON
				continue
			}
			keys++
			if !strings.Contains(doc, "`"+key+"`") && !strings.Contains(doc, "`"+key+"[]`") && !strings.Contains(doc, "."+key+"`") && !strings.Contains(doc, "`"+key+".") && !strings.Contains(doc, "."+key+".") {
				t.Errorf("%s of %s is not in docs/reference/json.md", key, x)
			}
			walk(f.Type)
		}
	}
	walk(reflect.TypeFor[Dump]())
	walk(reflect.TypeFor[Several]())
	walk(reflect.TypeFor[Child]())
	walk(reflect.TypeFor[WatchEvent]())
	walk(reflect.TypeFor[StatDocument]())
	walk(reflect.TypeFor[TimedLine]())
	walk(reflect.TypeFor[Heap]())
	walk(reflect.TypeFor[HeapGraph]())
	if keys < 80 {
		t.Errorf("only %d keys found: the test looks at too little", keys)
	}
}
