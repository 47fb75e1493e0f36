package findings

import (
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/sampler"
)

// TestMemoryGrows: there is a finding if memory keeps growing through several full collections. There is no finding if
// memory fills up and stays, goes up and down, or leaps once.
func TestMemoryGrows(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		what string
		// The function rss returns the memory in a given second, in MiB. The function majors returns the number of full
		// collections up to this second.
		rss    func(second int64) int64
		majors func(second int64) uint64
		want   []string
		// growing is true if the method Growing must report growth.
		growing bool
	}{
		{"grows", func(s int64) int64 { return 60 + 10*s }, func(s int64) uint64 { return uint64(s / 4) }, []string{"memory_grows"}, true},
		{"no full collection yet", func(s int64) int64 { return 60 + 10*s }, func(int64) uint64 { return 1 }, nil, true},
		{"little", func(s int64) int64 { return 20 + s }, func(s int64) uint64 { return uint64(s / 4) }, nil, true},
		{"of much", func(s int64) int64 { return 4000 + 10*s }, func(s int64) uint64 { return uint64(s / 4) }, nil, true},
		{"by much, of more", func(s int64) int64 { return 4000 + 40*s }, func(s int64) uint64 { return uint64(s / 4) }, []string{"memory_grows"}, true},
		{"fills up", func(s int64) int64 { return 60 + 300 - 300*10/(10+s*s) }, func(s int64) uint64 { return uint64(s / 4) }, nil, false},
		{"a leap", func(s int64) int64 { return 60 + s/12*300 }, func(s int64) uint64 { return uint64(s / 4) }, nil, false},
		{"a saw-tooth", func(s int64) int64 { return 60 + s%10*40 }, func(s int64) uint64 { return uint64(s / 4) }, nil, false},
	} {
		s := newScene(t)
		work := s.stack("c:String#*", "Cache#put")
		for second := range int64(25) {
			s.proc.AtNS, s.proc.RSSBytes = s.now, c.rss(second)*mb
			s.gc.Count, s.gc.MajorCount = uint64(second), c.majors(second)
			s.gc.Pair = sampler.AllocPair{Thread: 1, Objects: 5}
			s.play(gvltest.Sec, func(int) (sampler.ThreadID, []sampler.Thread) {
				return 1, []sampler.Thread{s.at(gvltest.Holder(1), work)}
			})
		}
		s.want(c.what, c.want)
		if g := s.f.Growing(); (g.SpanNS > 0) != c.growing || c.growing && (g.ToBytes-g.FromBytes < growingBytes || g.OfC) {
			t.Errorf("%s: %+v", c.what, g)
		}
		if len(c.want) > 0 {
			s.want(c.what, c.want, " have become ", "outside of the objects' slots", "most objects are made in Cache#put → String#* (app.rb:10) (100 %)")
			for range 15 { // then the growth stops
				s.proc.AtNS = s.now
				s.play(gvltest.Sec, func(int) (sampler.ThreadID, []sampler.Thread) {
					return 1, []sampler.Thread{s.at(gvltest.Holder(1), work)}
				})
			}
			s.want("and stops", nil)
			if g := s.f.Growing(); g != (Growing{}) {
				t.Errorf("%s, and stops: %+v", c.what, g)
			}
		}
	}
}

// TestMemoryGrowsThroughRareCollections: full collections are 90 s apart, and between them memory sometimes does not
// grow. Only the memory right after each collection shows the growth. So ddtop must remember it for longer than other
// readings.
func TestMemoryGrowsThroughRareCollections(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		what string
		rss  func(second int64) int64
		want []string
	}{
		// In every period of 30 s, the memory grows in the first ten seconds only.
		{"grows", func(s int64) int64 { return 200 + s/30*30 + 3*min(s%30, 10) }, []string{"memory_grows"}},
		{"a saw-tooth", func(s int64) int64 { return 200 + s%180/30*60 }, nil},
		{"fills up", func(s int64) int64 { return 200 + 400*s/(s+60) }, nil},
		{"stays", func(s int64) int64 { return 600 + s%7 }, nil},
	} {
		s := newScene(t)
		work := s.stack("c:String#*", "Cache#put")
		raised := false
		for second := range int64(360) {
			s.proc.AtNS, s.proc.RSSBytes = s.now, c.rss(second)*mb
			s.gc.Count, s.gc.MajorCount = uint64(second), uint64(second/90)
			s.play(gvltest.Sec, func(int) (sampler.ThreadID, []sampler.Thread) {
				return 1, []sampler.Thread{s.at(gvltest.Holder(1), work)}
			})
			raised = raised || len(s.f.Current()) > 0
		}
		s.want(c.what, c.want)
		if raised != (len(c.want) > 0) {
			t.Errorf("%s: raised %v", c.what, raised)
		}
		if raised {
			s.want(c.what, c.want, " in the last 5m", "outside of the objects' slots")
		}
	}
}

// TestMemoryOfC: Ruby counts the bytes that it has malloc'ed since the last full collection. If the process grows by
// more than this count, C code has allocated the rest.
func TestMemoryOfC(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		what string
		// counted is how many MiB per second Ruby allocates by malloc and does not free.
		counted int64
		says    string
	}{
		{"C code", 0, "most of it memory of C code, not of Ruby objects (Ruby's own memory grew by "},
		{"a fifth is Ruby's", 2, "most of it memory of C code, not of Ruby objects (Ruby's own memory grew by "},
		{"half is Ruby's", 5, "outside of the objects' slots (malloc)"},
		{"Ruby's", 10, "outside of the objects' slots (malloc)"},
	} {
		s := newScene(t)
		work := s.stack("c:String#*", "Cache#put")
		for second := range int64(25) {
			s.proc.AtNS, s.proc.RSSBytes = s.now, (60+10*second)*mb
			s.gc.Count, s.gc.MajorCount = uint64(second), uint64(second/4)
			for tenth := range int64(10) {
				s.detail = sampler.GCDetail{AtNS: s.now, OldMallocIncrease: c.counted * mb * (second%4*10 + tenth) / 10}
				s.play(gvltest.Sec/10, func(int) (sampler.ThreadID, []sampler.Thread) {
					return 1, []sampler.Thread{s.at(gvltest.Holder(1), work)}
				})
			}
		}
		s.want(c.what, []string{"memory_grows"}, c.says)
		if ofC := c.counted <= 2; s.f.Growing().OfC != ofC {
			t.Errorf("%s: Growing says %v of memory of C code, want %v", c.what, !ofC, ofC)
		}
	}
}

// TestMakerOfObjects: ddtop names the place in the code that makes the most objects. It does so only if the place has
// made objects at enough instants to be distinguished from the place with the second most objects. Objects are added to
// the place, whichever code called it.
func TestMakerOfObjects(t *testing.T) {
	s := newScene(t)
	own := func(labels ...string) sampler.StackID {
		var ids []sampler.FrameID
		for _, l := range labels {
			name, c := strings.CutPrefix(l, "c:")
			ids = append(ids, s.dict.InternFrame(sampler.Frame{Path: "app.rb", Line: 10, Label: name, C: c, Origin: sampler.OriginApp}))
		}
		return s.dict.InternStackOf(ids)
	}
	put, under, other := own("Cache#put"), own("Cache#put", "Server#serve"), own("Order#total")
	calls := own("c:String#*", "Cache#put")
	for _, c := range []struct {
		what string
		// instants has two numbers for each stack: at how many instants the stack made objects, and how many objects it
		// made at each of them.
		instants map[sampler.StackID][2]int64
		want     sampler.StackID
		place    string
	}{
		{"no instant", nil, 0, ""},
		{"too few", map[sampler.StackID][2]int64{put: {3, 5}}, 0, ""},
		{"nothing else", map[sampler.StackID][2]int64{put: {4, 5}}, put, "Cache#put (app.rb:10) (100 %)"},
		{"a C function", map[sampler.StackID][2]int64{calls: {4, 5}}, calls, "Cache#put → String#* (app.rb:10) (100 %)"},
		{"with and without a C function", map[sampler.StackID][2]int64{calls: {6, 5}, put: {5, 5}, other: {3, 5}}, calls, "Cache#put (app.rb:10) (79 %)"},
		{"two callers", map[sampler.StackID][2]int64{put: {5, 5}, under: {6, 5}, other: {3, 5}}, under, "Cache#put (app.rb:10) (79 %)"},
		{"nearly as much in another place", map[sampler.StackID][2]int64{put: {12, 5}, other: {8, 5}}, 0, ""},
		{"one long instant", map[sampler.StackID][2]int64{put: {4, 5}, other: {1, 500}}, 0, ""},
	} {
		w := &window{moment: moment{dict: s.dict}, past: past{allocs: make(map[sampler.StackID]allocs)}}
		for stack, n := range c.instants {
			w.allocs[stack] = allocs{n[0] * n[1], n[0] * n[1] * n[1]}
		}
		got, text := w.maker()
		if got != c.want || (got != 0) != strings.Contains(text, " made in ") || !strings.HasSuffix(text, c.place) {
			t.Errorf("%s: stack %d, %q; want stack %d, %q", c.what, got, text, c.want, c.place)
		}
	}
}
