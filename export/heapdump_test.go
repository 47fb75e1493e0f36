package export

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

const heapDump = `{"type":"ROOT","root":"vm","references":["0x10"]}
{"address":"0x10","type":"CLASS","name":"Shop","slot_size":160,"references":["0x20","0x30"],"memsize":300}
{"address":"0x18","type":"CLASS","singleton":true,"superclass":"0x10","memsize":160}
{"address":"0x20","type":"ARRAY","class":"0x40","length":2,"references":["0x28","0x30","0x99"],"memsize":40,"flags":{"old":true}}
{"address":"0x28","type":"OBJECT","class":"0x18","memsize":80}
{"address":"0x30","type":"STRING","class":"0x50","bytesize":5,"value":"secret","memsize":40}
{"address":"0x38","type":"IMEMO","class":"0x12345","memsize":40}
{"address":"0x50","type":"CLASS","memsize":160}
{"address":"0x60","type":"SHAPE","id":3}
`

var dumpLimits = sampler.HolderOptions{MaxObjects: 100, MaxBytes: 1 << 20}

// TestReadHeapDump reads a heap dump, writes it, and reads the result again. An object with a singleton class must be
// counted under the superclass.
func TestReadHeapDump(t *testing.T) {
	text := heapDump
	for range 2 {
		g, err := ReadHeapDump(strings.NewReader(text), "a.json", dumpLimits)
		if err != nil {
			t.Fatal(err)
		}
		names := make(map[uint64]string)
		for i := range g.Nodes {
			names[g.Nodes[i].Addr] = g.Type(uint32(i)) + " " + g.ClassName(uint32(i))
		}
		for addr, want := range map[uint64]string{0x10: "T_CLASS Shop", 0x20: "T_ARRAY (unknown)", 0x28: "T_OBJECT Shop", 0x30: "T_STRING (anonymous)",
			0x38: "T_IMEMO (internal)"} {
			if names[addr] != want {
				t.Errorf("%#x is %q, want %q", addr, names[addr], want)
			}
		}
		if set := g.OfClass("Shop"); len(set) != 1 || g.HoldersOf(set, 1).Unreached != 0 {
			t.Errorf("%v", set)
		}
		c := CountGraph(g)
		if c.Objects != 7 || c.Types[0].Name != "T_CLASS" || c.Types[0].Bytes() != 620 {
			t.Errorf("%+v", c)
		}
		var out bytes.Buffer
		if err := WriteHeapDump(&out, g); err != nil {
			t.Fatal(err)
		}
		if text = out.String(); strings.Contains(text, "secret") || !strings.Contains(text, `"flags":{"old":true}`) {
			t.Error(text)
		}
	}
}

func TestReadHeapDumpRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "no objects",
		"{\"type\":\"ROOT\"}\n[]\n":        "a.json, line 2: this is no line",
		`{"address":"16","type":"OBJECT"}`: "line 1: \"16\" is no address",
		`{"address":"0x10","type":"OBJECT"}` + "\n" + `{"address":"0x10","type":"HASH"}`: "line 2: 0x10 is there twice",
		`{"address":"0x10","type":"OBJECT","references":["x"]}`:                          "line 1: \"x\" is no address",
		`{"address":"0x10"}`: "line 1: the object at 0x10",
		`{"address":"0x10","type":"OBJECT","memsize":1e30}`:                  "line 1: this is no line",
		`{"address":"0x10","type":"OBJECT","memsize":` + "9999999999999999}": "line 1: the object at 0x10",
		strings.Repeat("\n", 3) + "x":                                        "line 4:",
	} {
		if _, err := ReadHeapDump(strings.NewReader(text), "a.json", dumpLimits); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	for _, o := range []sampler.HolderOptions{{MaxObjects: 3, MaxBytes: 1 << 20}, {MaxObjects: 100, MaxBytes: 1000}} {
		if _, err := ReadHeapDump(strings.NewReader(heapDump), "a.json", o); err == nil || !strings.Contains(err.Error(), "--max-") {
			t.Error(err)
		}
	}
}

func FuzzReadHeapDump(f *testing.F) {
	f.Add([]byte(heapDump))
	f.Fuzz(func(t *testing.T, text []byte) {
		g, err := ReadHeapDump(bytes.NewReader(text), "a.json", dumpLimits)
		if err != nil {
			return
		}
		CountGraph(g)
		g.HoldersOf(g.OfClass("Shop"), 3)
		var out bytes.Buffer
		if err := WriteHeapDump(&out, g); err != nil {
			t.Fatal(err)
		}
		if len(g.Nodes) > 0 {
			if _, err := ReadHeapDump(&out, "b.json", sampler.HolderOptions{MaxObjects: 100, MaxBytes: 2 << 20}); err != nil {
				t.Fatal(err)
			}
		}
	})
}
