package ruby

import (
	"slices"
	"testing"

	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/places"
)

// allPlaces are the places of all tags.
func allPlaces(t *testing.T) (list []places.Place) {
	var tags []string
	for _, tag := range places.Tagged(new(offsets), new(heap.Places), new(gcPlaces), new(newobjCounters), new(newobjPlaces),
		new(heapPage), new(gcDetailPlaces), new(fiberPlaces)) {
		tags = append(tags, tag)
	}
	for _, f := range slices.Concat(detailFigures(false), detailFigures(true)) {
		tags = append(tags, f.layout)
	}
	for _, f := range heapFigures() {
		tags = append(tags, f.layout)
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

// TestTablesHoldWhatIsRead: each name that a table has stands in a tag, for some release, and what stands in a tag is in a table
// of a release that the tag is for.
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

// TestTablesResolve: all that ddtop reads of a known release is found in its table.
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
			vm, err := newVM(nil, table, r.Version, rel)
			if err != nil {
				t.Error(err)
				continue
			}
			g := newGCReader(vm, 1)
			if g == nil || !g.classes.ok || !g.alloc.known() || g.detail.buf == nil {
				t.Errorf("%s: the collector can't be read", table.Name)
				continue
			}
			if counts := g.alloc.cachePtr >= 0; counts != rel.AtLeast(4, 0) {
				t.Errorf("%s: ractors count what they allocate in caches of their own: %t", table.Name, counts)
			}
			if _, err := newFiberFinder(&Reader{vm: vm, gc: g}); err != nil {
				t.Error(err)
			}
		}
	}
}
