package sampler

import (
	"fmt"
	"strings"
	"testing"
)

// TestWorksOfSeveralProcesses: several processes share memory for requests. If another process's entries are in use,
// there is less room for this process. Entries that are not in use must be evicted instead.
func TestWorksOfSeveralProcesses(t *testing.T) {
	const limit = 24 << 20
	room := NewRoom(limit, 8)
	var all []*Dictionary
	for range 8 {
		all = append(all, room.NewDictionary())
	}
	for i := range 30_000 {
		for _, d := range all {
			d.InternWork(Work{Number: WorkNumber(i + 1), Kind: WorkRequest, Endpoint: "GET orders#index"})
		}
	}
	for i, d := range all {
		if n := d.LeftOut(); n != 0 || d.Generation() > 60 {
			t.Errorf("process %d: %d refused in %d generations, %d bytes", i, n, d.Generation(), d.Bytes())
		}
	}
	if held := room.held.Load(); held > limit*3/4 {
		t.Errorf("%d bytes of %d", held, limit)
	}
}

// TestWorksTakeNoRoomOfFrames: a program makes requests and statements without end. There must still be room for frames
// and other data. The IDs of the last requests must stay valid. A long request keeps its ID if it is interned again in
// each generation.
func TestWorksTakeNoRoomOfFrames(t *testing.T) {
	d := NewDictionary()
	d.maxBytes = 6 << 20
	long := Work{Number: 1, Kind: WorkJob, Endpoint: "LongJob", SinceNS: 1}
	first, seen := d.InternWork(long), d.Generation()
	var works []WorkID
	var texts []TextID
	turns, most := 0, int64(0)
	for i := range 200_000 {
		works = append(works, d.InternWork(Work{Number: WorkNumber(i + 2), Kind: WorkRequest, Endpoint: "GET orders#index"}))
		if i%10 == 0 {
			texts = append(texts, d.InternText(fmt.Sprint("SELECT ", strings.Repeat("y", 100), i)))
		}
		if g := d.Generation(); g != seen {
			seen = g
			turns++
			if id := d.InternWork(long); id != first {
				t.Fatalf("request %d goes on as %d", first, id)
			}
		}
		most = max(most, d.Bytes())
	}
	if most > d.maxBytes*3/4 || d.LeftOut() != 0 || turns < 10 {
		t.Errorf("%d bytes of %d at most, %d refused, %d generations", most, d.maxBytes, d.LeftOut(), turns)
	}
	for back := range 1000 {
		i := len(works) - 1 - back
		if w := d.Work(works[i]); w.Number != WorkNumber(i+2) || w.Endpoint != "GET orders#index" {
			t.Fatalf("the request before the last %d is %+v", back, w)
		}
	}
	if s := d.Statement(texts[len(texts)-1]); !strings.HasSuffix(s, "199990") {
		t.Errorf("the last statement is %q", s)
	}
	if w, s := d.Work(works[0]), d.Statement(texts[0]); w != (Work{}) || s != "" {
		t.Errorf("evicted: %+v, %q", w, s)
	}
}
