// Gen turns the JSON layouts that DWARF was dumped to (one file a release and machine: structs, enums, constants and
// configuration variants) into the compact tables that package layout embeds. Tables that agree in every kept field
// become one. The output depends on the input alone: running it again gives the same bytes.
//
//	go run ./attach/layout/gen -json FOLDER -out attach/layout/tables
//
// Where there is no document for a machine, it makes a table from the debug information of a libruby built for it, beside
// the table of the same releases on another machine. Tables made so stay when the others are made again.
//
//	go run ./attach/layout/gen -dwarf libruby.so.2.7.4 -like attach/layout/tables/2.7.8.x86_64.layout -out attach/layout/tables
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

func main() {
	in := flag.String("json", "", "folder with ruby-RELEASE.MACHINE.json")
	library := flag.String("dwarf", "", "libruby with debug information, in place of -json")
	like := flag.String("like", "", "with -dwarf: the table of the same releases on another machine")
	out := flag.String("out", "tables", "folder for the tables; its *.layout files are replaced")
	flag.Parse()
	err := error(nil)
	if *library != "" {
		err = addFromDWARF(*library, *like, *out)
	} else {
		err = run(*in, *out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(in, out string) error {
	if in == "" {
		return fmt.Errorf("-json FOLDER is needed")
	}
	names, err := filepath.Glob(filepath.Join(in, "ruby-*.json"))
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return fmt.Errorf("no ruby-*.json in %s", in)
	}
	sort.Strings(names)
	var tables []*table
	for _, name := range names {
		t, err := load(name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		tables = append(tables, t)
	}
	tables = merge(tables)
	old, err := filepath.Glob(filepath.Join(out, "*.layout"))
	if err != nil {
		return err
	}
	for _, name := range old {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if bytes.HasPrefix(text, []byte(fromDWARF)) {
			continue
		}
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	for _, t := range tables {
		var b bytes.Buffer
		t.write(&b)
		if err := os.WriteFile(filepath.Join(out, t.fileName()), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// fileName is that of the table among the embedded ones.
func (t *table) fileName() string { return fmt.Sprintf("%s.%s.layout", t.release, t.machine) }

// merge joins tables of one machine that agree in all that is kept. The last one gives the name.
func merge(tables []*table) []*table {
	sort.SliceStable(tables, func(i, j int) bool { return lessRelease(tables[i].release, tables[j].release) })
	var kept []*table
	byContent := make(map[string]*table)
	for _, t := range tables {
		var b strings.Builder
		b.WriteString(t.machine + "\n")
		t.writeContent(&b)
		if first, ok := byContent[b.String()]; ok {
			first.release = t.release
			first.applies = append(first.applies, t.applies...)
			continue
		}
		byContent[b.String()] = t
		kept = append(kept, t)
	}
	return kept
}
