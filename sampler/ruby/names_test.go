package ruby

import (
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/gc"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/places"
	"github.com/ddtop/ddtop/sampler/ruby/internal/rubyvm"
)

// allPlaces returns the places of all tags.
func allPlaces(t *testing.T) (list []places.Place) {
	tags := gc.Tags()
	for _, tag := range places.Tagged(new(rubyvm.Offsets), new(heap.Places), new(code.Places), new(fiberPlaces)) {
		tags = append(tags, tag)
	}
	for _, tag := range tags {
		p, err := places.Parse(tag)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	return list
}

// TestTablesHoldWhatIsRead: the layout tables have exactly the names that the struct tags request. Each name in the
// tables is in a struct tag for at least one release. Each name in a struct tag is in the table of at least one release
// to which the tag applies.
func TestTablesHoldWhatIsRead(t *testing.T) {
	releases, err := layout.Releases()
	if err != nil {
		t.Fatal(err)
	}
	all := allPlaces(t)
	asked, known := make(map[string]bool), make(map[string]bool)
	type part struct{ tag, part string }
	found := make(map[part]bool)
	for _, r := range releases {
		rel, err := places.ParseRelease(r.Version)
		if err != nil {
			t.Fatal(err)
		}
		for _, jmpBuf := range []bool{false, true} {
			table, _, err := layout.For(r.Version, r.Machine, jmpBuf)
			if err != nil {
				t.Fatal(err)
			}
			names := table.Names()
			for _, name := range names {
				known[name] = true
			}
			for i := range all {
				p := &all[i]
				for _, s := range p.Structs {
					fields := p.Fields
					if fields == nil {
						found[part{p.Tag, s}] = found[part{p.Tag, s}] || p.Of(rel) && (table.Size(s) > 0 || slices.Contains(names, s))
						asked[s] = true
					}
					for _, f := range fields {
						has := p.Of(rel) && slices.Contains(names, s+"."+f)
						found[part{p.Tag, s}] = found[part{p.Tag, s}] || has
						found[part{p.Tag, f}] = found[part{p.Tag, f}] || has
						asked[s+"."+f] = asked[s+"."+f] || p.Of(rel)
					}
				}
			}
		}
	}
	for name := range known {
		if !asked[name] {
			t.Errorf("the tables have %s, which no tag names", name)
		}
	}
	for p, ok := range found {
		if !ok {
			t.Errorf("no table has what the tag %q names: %s", p.tag, p.part)
		}
	}
	if len(known) < 200 {
		t.Errorf("only %d names", len(known))
	}
}

// TestTablesResolve: the table of each known release has the offsets of all fields that ddtop reads in this release.
func TestTablesResolve(t *testing.T) {
	releases, err := layout.Releases()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range releases {
		for _, jmpBuf := range []bool{false, true} {
			table, _, err := layout.For(r.Version, r.Machine, jmpBuf)
			if err != nil {
				t.Fatal(err)
			}
			rel, err := places.ParseRelease(r.Version)
			if err != nil {
				t.Fatal(err)
			}
			vm, err := rubyvm.NewVM(nil, table, r.Version, rel)
			if err != nil {
				t.Error(err)
				continue
			}
			if err := vm.Resolve(new(fiberPlaces)); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestEveryLayout: for every release that has a layout, ddtop finds the offsets of all fields by their names.
func TestEveryLayout(t *testing.T) {
	all, err := layout.Releases()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		for _, jmpBuf := range []bool{false, true} {
			table, _, err := layout.For(r.Version, r.Machine, jmpBuf)
			if err != nil {
				t.Errorf("%s %s: %v", r.Version, r.Machine, err)
				continue
			}
			release, err := places.ParseRelease(r.Version)
			if err != nil {
				t.Fatal(err)
			}
			o, err := rubyvm.ResolveOffsets(table, release)
			if err != nil {
				t.Error(err)
				continue
			}
			size := 56
			switch {
			case !release.AtLeast(2, 6):
				size = 48
			case release.AtLeast(3, 1) && !release.AtLeast(3, 3):
				size = 64
			}
			if o.Code.FrameSize != size {
				t.Errorf("%s: control frames of %d bytes, want %d", r.Version, o.Code.FrameSize, size)
			}
		}
	}
	if len(all) < 30 {
		t.Errorf("%d layouts only", len(all))
	}
}

func TestMissingFieldsAreNamed(t *testing.T) {
	_, err := rubyvm.ResolveOffsets(new(layout.Table), places.Release{Major: 3, Minor: 4})
	if err == nil {
		t.Fatal("an empty table has all")
	}
	for _, want := range []string{"rb_symbols_t.ids", "rb_thread_struct.lt_node or vmlt_node", "sizeof rb_control_frame_struct",
		"tLAST_OP_ID", "RClass_and_rb_classext_t.classext", "3.4.0"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not name %s", err, want)
		}
	}
	for _, other := range []string{"rb_thread_struct.nt", "rb_vm_struct.living_threads", "rb_vm_struct.shape_list"} {
		if strings.Contains(err.Error(), other) {
			t.Errorf("%q names %s, which 3.4 does not need", err, other)
		}
	}
}
