package cli_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/report"
)

// dumpProgram is a Ruby program with objects of many kinds. It writes its heap to a file with ObjectSpace.dump_all.
const dumpProgram = `
require "objspace"
require "set"
module Store; CACHE = {}; end
class Session; def initialize(i); @data = "secret-value-#{i}" * 9; @list = [i.to_s, {i => :a}]; end; end
Pair = Struct.new(:a, :b)
2000.times { |i| (Store::CACHE[i % 7] ||= []) << Session.new(i) }
SINGLE = Session.new(0)
def SINGLE.own; end
PAIRS = Array.new(100) { |i| Pair.new(i.to_s, [i]) }
MANY = Set.new((1..50).map(&:to_s))
TABLE = (1..500).to_h { |i| [i.to_s, 2.0**(2000 + i)] rescue [i.to_s, i] }
BLOCK = proc { |x| x + PAIRS.size }
out = File.open("/tmp/ddtop-heap-#{$$}.json", "w+")
File.unlink(out.path)
GC.start; GC.start
GC.disable
ObjectSpace.dump_all(output: out)
out.flush
puts out.fileno, "ready"; $stdout.flush; $stdin.gets`

type heapLine struct {
	Address, Type, Class, Name, Root string
	Value                            *string
	References                       []string
	MemSize                          uint64 `json:"memsize"`
	Length, Size, ByteSize           *uint64
	Frozen                           bool
}

func heapLines(t *testing.T, path string) map[string]*heapLine {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := make(map[string]*heapLine)
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var l heapLine
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		if l.Address != "" && l.Type != "SHAPE" {
			out[l.Address] = &l
		}
	}
	if lines.Err() != nil {
		t.Fatal(lines.Err())
	}
	return out
}

func sameSet(a, b *heapLine) bool {
	set := func(l *heapLine) map[string]bool {
		out := make(map[string]bool)
		for _, r := range l.References {
			if r != l.Class && r != l.Address {
				out[r] = true
			}
		}
		return out
	}
	return maps.Equal(set(a), set(b))
}

func sameNumber(a, b *uint64) bool { return a != nil && b != nil && *a == *b }

// TestHeapFile compares two files with all objects of a process, line by line. ddtop wrote one of them, and the process
// itself wrote the other with ObjectSpace.dump_all. ddtop must also be able to read both files.
func TestHeapFile(t *testing.T) {
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		dir := t.TempDir()
		theirs, ours := filepath.Join(dir, "ruby.json"), filepath.Join(dir, "ddtop.json")
		p := r.Start(t, dumpProgram, rubytest.Options{})
		fd := p.Line(t)
		p.Expect(t, "ready")
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/fd/%s", p.PID, fd))
		if err == nil { // Ruby 2.7 keeps the end of the file in a buffer, so the last line may be incomplete
			err = os.WriteFile(theirs, text[:bytes.LastIndexByte(text, '\n')+1], 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		run(t, "heap", strconv.Itoa(p.PID), "-o", ours, "--overhead", "off").want(t, 0)
		want, got := heapLines(t, theirs), heapLines(t, ours)
		var lost, typed, classed, referenced, compared, lengths, sized, plain int
		for addr, w := range want {
			g := got[addr]
			if g == nil {
				lost++
				continue
			}
			compared++
			if g.Type != w.Type {
				typed++
			}
			if g.Class != w.Class && w.Type != "IMEMO" {
				classed++
			}
			if w.Type != "IMEMO" && w.Type != "DATA" && !sameSet(w, g) {
				referenced++
			}
			// If the memory of a String is shared, Ruby's file has no length for it, so there is nothing to compare.
			if w.Length != nil && !sameNumber(g.Length, w.Length) || w.ByteSize != nil && w.Type == "STRING" && !sameNumber(g.ByteSize, w.ByteSize) {
				lengths++
			}
			switch w.Type {
			case "STRING", "ARRAY", "HASH", "OBJECT", "STRUCT", "FLOAT":
				if plain++; g.MemSize != w.MemSize {
					sized++
				}
			}
			if g.Value != nil {
				t.Fatalf("%+v has a value", g)
			}
		}
		t.Logf("%d lines: %d lost, %d types, %d classes, %d references, %d lengths, %d of %d sizes differ; %d more", compared, lost, typed, classed, referenced, lengths,
			sized, plain, len(got)-compared)
		// The test allows a few differences, because the program makes and frees objects while the files are written.
		few := compared / 500
		if compared < 10_000 || lost > few || typed > few || classed > few || lengths > few || referenced > compared/100 || sized > plain/50 || len(got) > len(want)+len(want)/5 {
			t.Error("the files differ")
		}
		text, err = os.ReadFile(ours)
		if err != nil || strings.Contains(string(text), "secret") {
			t.Error("the content of a String is in the file", err)
		}
		for _, file := range []string{theirs, ours} {
			js := run(t, "heap", file, "--json")
			js.want(t, 0)
			var h report.Heap
			if err := json.Unmarshal([]byte(js.out), &h); err != nil {
				t.Fatal(err)
			}
			if k := kindOf(&h, "Session"); k.Objects != 2001 || h.File == nil || *h.File != file || len(h.Types) < 10 {
				t.Errorf("%s: %+v", file, k)
			}
			holders := run(t, "heap", file, "--holders", "Session", "--biggest")
			holders.want(t, 0)
			if !strings.Contains(holders.out, "Hash → Array → Session") && !strings.Contains(holders.out, "(Hash) → Array → Session") {
				t.Error(holders.out)
			}
		}
	})
}

// TestHeapFiles compares two compressed files of one program's heap with `ddtop heap`. The program made objects after
// the first file. heap refuses damaged files and wrong arguments.
func TestHeapFiles(t *testing.T) {
	p := rubytest.One(t).Start(t, `
class Made; end
keep = []
loop { puts "ready"; $stdout.flush; $stdin.gets or break; 1234.times { keep << Made.new } }`, rubytest.Options{})
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.json.zst"), filepath.Join(dir, "b.json.zst")
	for _, file := range []string{a, b} {
		p.Expect(t, "ready")
		run(t, "heap", strconv.Itoa(p.PID), "-o", file, "--overhead", "off").want(t, 0)
		p.Send(t, "")
	}
	p.Expect(t, "ready")
	pb := filepath.Join(dir, "x.pb.gz")
	run(t, "heap", strconv.Itoa(p.PID), "-o", pb, "--overhead", "off").want(t, 0)
	f, err := os.Open(pb)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	prof, err := profile.Parse(f)
	if err != nil || len(prof.SampleType) != 2 || prof.SampleType[0].Type != "heap-live-samples" || prof.SampleType[1].Type != "heap-live-size" {
		t.Fatal(prof, err)
	}
	made := false
	for _, s := range prof.Sample {
		made = made || s.Label["allocation class"][0] == "Made" && s.Location[0].Line[0].Function.Name == "Made" && s.Value[0] == 2468 && s.Value[1] >= 2468*40
	}
	if !made {
		t.Error("the profile lacks a class")
	}
	text := run(t, "heap", a, b)
	text.want(t, 0)
	if !strings.Contains(text.out, "Made") || !strings.Contains(text.out, "1,234") {
		t.Error(text.out)
	}
	js := run(t, "heap", a, b, "--json")
	js.want(t, 0)
	var d report.HeapDiff
	if err := json.Unmarshal([]byte(js.out), &d); err != nil {
		t.Fatal(err)
	}
	found := false
	for _, c := range d.Classes {
		found = found || c.Name == "Made" && c.ObjectsBefore == 0 && c.Objects == 1234
	}
	if !found {
		t.Errorf("%+v", d.Classes)
	}
	bad, packed := filepath.Join(dir, "bad.json"), filepath.Join(dir, "bad.json.zst")
	if err := os.WriteFile(bad, []byte("{\"address\":\"0x10\", \"type\":\"OBJECT\"}\nnonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(packed, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		say  string
	}{
		{[]string{bad}, 1, "bad.json, line 2:"},
		{[]string{packed}, 1, "bad.json.zst"},
		{[]string{filepath.Join(dir, "none.json")}, 1, "none.json"},
		{[]string{a, "--max-objects", "10"}, 1, "--max-objects"},
		{[]string{a, "--max-memory", "10kB"}, 1, "--max-memory"},
		{[]string{a, b, "--biggest"}, 2, "one file"},
		{[]string{a, b, a}, 2, "two files"},
		{[]string{a, "-d", "3s"}, 2, "of a process"},
		{[]string{strconv.Itoa(p.PID), "-o", filepath.Join(dir, "x.txt")}, 2, "no format"},
		{[]string{strconv.Itoa(p.PID), "-o", b, "--json"}, 2, "one process"},
	} {
		run(t, append([]string{"heap"}, c.args...)...).want(t, c.code, c.say)
	}
}

// TestHeapOfCore reads the heap from a core file with `ddtop heap`: the counts of objects, what holds them, and the
// file of all objects. Tests in sampler/live read core files of all Rubies.
func TestHeapOfCore(t *testing.T) {
	t.Parallel()
	gcore := rubytest.Program(t, "gcore", "gdb")
	p := rubytest.One(t).Start(t, holdersProgram, rubytest.Options{})
	p.Expect(t, "ready")
	dir := t.TempDir()
	out, err := exec.Command(gcore, "-o", filepath.Join(dir, "core"), strconv.Itoa(p.PID)).CombinedOutput()
	core := filepath.Join(dir, "core."+strconv.Itoa(p.PID))
	if _, statErr := os.Stat(core); statErr != nil {
		t.Fatalf("gcore wrote no core: %v: %s", err, out)
	}
	js := run(t, "heap", "--core", core, "--json")
	js.want(t, 0)
	var h report.Heap
	if err := json.Unmarshal([]byte(js.out), &h); err != nil {
		t.Fatal(err)
	}
	if k := kindOf(&h, "Session"); k.Objects != 2000 || h.File == nil || *h.File != core || h.PID != p.PID || len(h.Types) < 10 {
		t.Errorf("%+v", k)
	}
	text := run(t, "heap", "--core", core, "--holders", "Session")
	text.want(t, 0)
	if !strings.Contains(text.out, "Store::CACHE (Hash) → Array → Session") || strings.Contains(text.out, "secret") {
		t.Error(text.out)
	}
	values := run(t, "heap", "--core", core, "--biggest", "--values")
	values.want(t, 0)
	if !strings.Contains(values.out, "\n    \"secretsecret") {
		t.Error(values.out)
	}
	file := filepath.Join(dir, "x.json")
	run(t, "heap", "--core", core, "-o", file).want(t, 0)
	sessions := 0
	for _, l := range heapLines(t, file) {
		if l.Type == "OBJECT" && len(l.References) == 2 {
			sessions++
		}
	}
	if sessions < 2000 {
		t.Errorf("%d Sessions in the file", sessions)
	}
	for _, c := range [][]string{{"1"}, {"-d", "3s"}, {"--children"}} {
		run(t, append([]string{"heap", "--core", core}, c...)...).want(t, 2)
	}
}
