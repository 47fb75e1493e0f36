package code

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/memtest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/places"
)

// ruleDecoder returns a Decoder that reads no memory. Tests set its frames with the method put.
func ruleDecoder(release string) *Decoder {
	r, err := places.ParseRelease(release)
	if err != nil {
		panic(err)
	}
	return NewDecoder(Target{Release: r, Mem: new(memtest.Pages), Code: new(Places), Objects: new(heap.Places)}, sampler.NewDictionary())
}

// put makes the Decoder's control frames from words, innermost first: "C name", "ruby name", "internal name", "trace
// name" (C_TRACE), "rescue name", "ensure name", "skip".
func (d *Decoder) put(frames ...string) {
	for i, text := range frames {
		kind, name, _ := strings.Cut(text, " ")
		h := &methodEntry{kind: kindMethod, addr: uint64(8 * (i + 1)), label: "K#" + name, name: name}
		q := &iseq{addr: attach.Address(8 * (i + 1)), path: "app.rb", abs: "/app.rb", base: name, first: int32(i),
			label: labelPlan{base: name, qualify: true}, lines: lineTable{lines: []int32{int32(100 + i)}}}
		w := frameWork{kind: frameRuby, code: q, method: h}
		switch kind {
		case "C":
			w.kind, w.code = frameC, nil
		case "internal":
			q.path, q.abs, q.internal = "<internal:x>", "", true
		case "trace":
			q.path, q.abs, q.internal, q.cTrace = "<internal:x>", "", true, true
		case "rescue":
			q.typ = iseqRescue
		case "ensure":
			q.typ = iseqEnsure
		case "skip":
			w = frameWork{}
		}
		if w.code != nil && d.rules.likeC(q) {
			w.kind, h.likeC = frameLikeC, true
		}
		d.work = append(d.work, w)
	}
}

// TestFrameRules checks, for each release, that ddtop shows the same control frames as the release's own backtraces,
// with the same paths and lines (docs/internals/stacks.md#what-a-backtrace-shows).
func TestFrameRules(t *testing.T) {
	all := []string{"2.5.9", "2.7.8", "3.0.7", "3.3.11", "3.4.9", "4.0.2", "4.1.0"}
	from := func(first string) []string { return all[slices.Index(all, first):] }
	before := func(end string) []string { return all[:slices.Index(all, end)] }
	tests := []struct {
		name     string
		releases []string
		frames   []string
		cut      int
		want     string
	}{
		{"a C function has its caller's place", all, []string{"C sleep", "ruby a", "ruby b"}, 0,
			"K#sleep app.rb:101 C, K#a app.rb:101, K#b app.rb:102"},
		{"C functions in a row", all, []string{"C sleep", "C each", "ruby a"}, 0,
			"K#sleep app.rb:102 C, K#each app.rb:102 C, K#a app.rb:102"},
		{"no Ruby caller at all", all, []string{"C sleep", "C each"}, 0, "K#sleep :0 C, K#each :0 C"},
		{"skipped frames lend nothing", all, []string{"C sleep", "skip", "ruby a"}, 0, "K#sleep app.rb:102 C, K#a app.rb:102"},
		{"nothing to show", all, []string{"skip"}, 0, ""},
		{"internal code is ordinary code", before("4.0.2"), []string{"ruby block", "internal loop", "ruby a"}, 0,
			"K#block app.rb:100, K#loop <internal:x>:101, K#a app.rb:102"},
		{"internal code is like C", from("4.0.2"), []string{"ruby block", "internal loop", "ruby a"}, 0,
			"K#block app.rb:100, K#loop app.rb:102 C, K#a app.rb:102"},
		{"C_TRACE is like C", []string{"3.4.9"}, []string{"ruby block", "trace each", "ruby a"}, 0,
			"K#block app.rb:100, K#each app.rb:102 C, K#a app.rb:102"},
		{"C_TRACE means nothing yet", before("3.4.9"), []string{"ruby block", "trace each", "ruby a"}, 0,
			"K#block app.rb:100, K#each <internal:x>:101, K#a app.rb:102"},
		{"what is inside internal code is dropped", from("4.0.2"), []string{"C f", "internal g", "C h", "internal i", "ruby a"}, 0,
			"K#i app.rb:104 C, K#a app.rb:104"},
		{"C outside internal code stays", from("4.0.2"), []string{"C f", "internal g", "C h", "ruby a"}, 0,
			"K#g app.rb:103 C, K#h app.rb:103 C, K#a app.rb:103"},
		{"an ordinary frame ends the dropping", from("4.0.2"), []string{"C f", "ruby b", "internal g", "ruby a"}, 0,
			"K#f app.rb:101 C, K#b app.rb:101, K#g app.rb:103 C, K#a app.rb:103"},
		{"internal code without a caller keeps its place", from("4.0.2"), []string{"ruby block", "internal main"}, 0,
			"K#block app.rb:100, K#main <internal:x>:101 C"},
		{"rescue and its method", before("3.4.9"), []string{"C sleep", "rescue a", "ruby a", "ruby b"}, 0,
			"K#sleep app.rb:101 C, K#a app.rb:101, K#a app.rb:102, K#b app.rb:103"},
		{"rescue stands for its method", from("3.4.9"), []string{"C sleep", "rescue a", "ruby a", "ruby b"}, 0,
			"K#sleep app.rb:101 C, K#a app.rb:101, K#b app.rb:103"},
		{"rescue within ensure", from("3.4.9"), []string{"rescue a", "ensure a", "ruby a", "ruby b"}, 0,
			"K#a app.rb:100, K#b app.rb:103"},
		{"rescue in a block", from("3.4.9"), []string{"rescue a", "ruby a", "C each", "ruby b"}, 0,
			"K#a app.rb:100, K#each app.rb:103 C, K#b app.rb:103"},
		{"the caller is in the part that was cut out: it would be without a place", all, []string{"ruby d", "C sleep", "ruby b", "ruby a"}, 2,
			"K#d app.rb:100, K#b app.rb:102, K#a app.rb:103"},
		{"the method of a rescue is in the part that was cut out", from("3.4.9"), []string{"rescue a", "ruby b", "ruby c"}, 1,
			"K#a app.rb:100, K#b app.rb:101, K#c app.rb:102"},
	}
	for _, tt := range tests {
		for _, release := range tt.releases {
			d := ruleDecoder(release)
			d.put(tt.frames...)
			var all outerFrames
			if err := d.internFrames(&Stack{Cut: tt.cut}, &all); err != nil {
				t.Fatal(err)
			}
			if placeless := d.info.Placeless; (placeless == 1) != strings.Contains(tt.name, "without a place") || placeless > 1 {
				t.Errorf("%s, %s: %d frames are said to be left out", tt.name, release, placeless)
			}
			var got []string
			for _, f := range d.dict.Frames(all.stack, nil) {
				f := d.dict.Frame(f)
				s := fmt.Sprintf("%s %s:%d", f.Label, f.Path, f.Line)
				if f.C {
					s += " C"
				}
				if f.Uncertain {
					s += " uncertain"
				}
				got = append(got, s)
			}
			if got := strings.Join(got, ", "); got != tt.want {
				t.Errorf("%s, %s: got\n  %s\nwant\n  %s", tt.name, release, got, tt.want)
			}
		}
	}
}

// TestFrameCacheTellsApart makes pairs of frames that differ in a single property that is shown. The two frames must
// not share an entry of the frame cache.
func TestFrameCacheTellsApart(t *testing.T) {
	d := ruleDecoder("3.4.9")
	d.put("ruby a", "ruby a", "C a", "C b")
	seen := make(map[sampler.FrameID]frameKey)
	for _, code := range []*iseq{d.work[0].code, d.work[1].code} {
		for _, method := range []*methodEntry{nil, d.work[0].method, {kind: kindMethod, addr: 800, label: "L#a", name: "a"}} {
			for _, pos := range []uint32{0, posFirstLine} {
				for _, uncertain := range []bool{false, true} {
					key := frameKey{code: code, method: method, pos: pos, kind: frameRuby, uncertain: uncertain}
					first, err := d.frameID(key, false)
					if err != nil {
						t.Fatal(err)
					}
					if again, _ := d.frameID(key, false); again != first {
						t.Errorf("%+v has the IDs %d and %d", key, first, again)
					}
					if other, ok := seen[first]; ok && d.dict.Frame(first).Line != code.first && other.method != method {
						t.Errorf("%+v and %+v share the ID %d", key, other, first)
					}
					seen[first] = key
				}
			}
		}
	}
	if len(seen) < 16 {
		t.Errorf("%d distinct frames", len(seen))
	}
}
