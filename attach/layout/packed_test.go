package layout

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/ddtop/ddtop/internal/golden"
)

// baseTable is the table that serves as the dictionary for compressing the other tables. Of the tables that were tried
// as the dictionary, it makes the smallest file.
const baseTable = "3.3.0.x86_64.json"

// TestPacked: the file tables.bin has the same tables as the folder tables, each with its text and its head. After a
// change of a table, run go test -update to write the file.
func TestPacked(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("tables/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	texts, heads := make(map[string][]byte), make(map[string]head)
	order := []string{baseTable}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var h head
		if err := json.Unmarshal(text, &h); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		file := filepath.Base(path)
		texts[file], heads[file] = text, h
		if file != baseTable {
			order = append(order, file)
		}
	}
	if flag.Lookup("update").Value.String() == "true" {
		golden.Check(t, "../tables.bin", pack(t, order, texts, heads))
		return
	}
	list, err := readPacked()
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != len(files) {
		t.Errorf("tables.bin has %d tables, the folder has %d: go test -update writes it", len(list), len(files))
	}
	for _, e := range list {
		if got, err := readTable(e.File); err != nil || !bytes.Equal(got, texts[e.File]) || !reflect.DeepEqual(e.Head, heads[e.File]) {
			t.Errorf("tables/%s differs from tables.bin, %v: go test -update writes it", e.File, err)
		}
	}
}

// pack returns the content of tables.bin. The parameter order has the names of the tables. The first of these tables is
// the dictionary for compressing the others.
func pack(t *testing.T, order []string, texts map[string][]byte, heads map[string]head) []byte {
	var list []packedTable
	var tables bytes.Buffer
	for i, file := range order {
		var dictionary []byte
		if i > 0 {
			dictionary = texts[order[0]]
		}
		before := tables.Len()
		w, err := flate.NewWriterDict(&tables, flate.BestCompression, dictionary)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(texts[file]); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		list = append(list, packedTable{File: file, Head: heads[file], Size: tables.Len() - before})
	}
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return append(append(text, '\n'), tables.Bytes()...)
}
