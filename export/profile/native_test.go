package profile

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// TestNativeFrames: the C functions that a Ruby method calls become locations of their files, with build IDs and
// addresses. Consecutive functions without a name are one location. What the kernel does for them is a location, too.
// The values of the Ruby frame are the same with and without C functions.
func TestNativeFrames(t *testing.T) {
	d := sampler.NewDictionary()
	ruby := d.InternStackOf([]sampler.FrameID{
		d.InternFrame(sampler.Frame{Label: "PG::Connection#sync_exec", Name: "sync_exec", C: true,
			Origin: sampler.OriginGem, Gem: "pg 1.5"}),
		d.InternFrame(sampler.Frame{Label: "<main>", Name: "<main>", Path: "a.rb", Line: 3, FirstLine: 1})})
	const pq = "/usr/lib/libpq.so.5.15"
	native := d.InternNative(ruby, &sampler.NativeStack{Frames: []sampler.NativeFrame{
		{Name: "poll", Library: "libc", Path: "/usr/lib/libc.so.6", BuildID: "aa", Offset: 0x1010, Function: 0x1000},
		{Library: "libpq", Path: pq, BuildID: "bb", Offset: 0x2010, Function: 0x2000},
		{Library: "libpq", Path: pq, BuildID: "bb", Offset: 0x3010, Function: 0x3000},
		{Name: "PQgetResult", Library: "libpq", Path: pq, BuildID: "bb", Offset: 0x4010, Function: 0x4000}},
		Kernel: "waits for the disk to flush"})
	m := Measured{Dict: d, Weights: &flamegraph.Snapshot{Entries: []flamegraph.Entry{
		{Key: flamegraph.Key{Thread: 1, Stack: ruby, State: gvl.IO}, Weights: flamegraph.Weights{WallNS: 30}},
		{Key: flamegraph.Key{Thread: 1, Stack: native, State: gvl.IO}, Weights: flamegraph.Weights{WallNS: 70}}}}}
	var b bytes.Buffer
	if err := WriteProfile(&b, m); err != nil {
		t.Fatal(err)
	}
	p, err := profile.ParseData(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	byFunction := make(map[string]int64)
	var got []string
	for _, s := range p.Sample {
		if gem := s.Label[labelGem]; len(gem) != 1 || gem[0] != "pg 1.5" {
			t.Errorf("the gem is %v", gem)
		}
		for _, l := range s.Location {
			byFunction[l.Line[0].Function.Name] += s.Value[0]
		}
		if len(s.Location) == 2 {
			continue
		}
		for _, l := range s.Location {
			got = append(got, l.Line[0].Function.Name)
			m := l.Mapping
			switch l.Line[0].Function.Name {
			case "poll":
				if m.File != "/usr/lib/libc.so.6" || m.BuildID != "aa" || !m.HasFunctions || l.Address != 0x100f {
					t.Errorf("%+v in %+v", l, m)
				}
			case "libpq (2 functions)":
				if m.File != pq || m.BuildID != "bb" || m.HasFunctions ||
					l.Address != 0x200f || m.Start != 0 || m.Limit != math.MaxUint64 ||
					l.Line[0].Function.SystemName != "libpq.so.5.15+0x200f,+0x300f" {
					t.Errorf("%+v, %+v in %+v", l, l.Line[0].Function, m)
				}
			case "PQgetResult":
				if m.File != pq || l.Address != 0x400f {
					t.Errorf("%+v in %+v", l, m)
				}
			}
		}
	}
	want := []string{"waits for the disk to flush", "poll", "libpq (2 functions)", "PQgetResult", "PG::Connection#sync_exec", "<main>"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if byFunction["PG::Connection#sync_exec"] != 100 || byFunction["poll"] != 70 ||
		len(p.Mapping) != 4 /* two files, the gem, the program */ {
		t.Errorf("%v, %d mappings", byFunction, len(p.Mapping))
	}
}
