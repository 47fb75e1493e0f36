package diff

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"

	weights "github.com/ddtop/ddtop/export/profile"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/internal/exporttest"
	"github.com/ddtop/ddtop/internal/rubytest"
)

// TestHTMLDifference: the HTML page of a difference must have the same figures as the text. The same measurements must
// always give the same page.
func TestHTMLDifference(t *testing.T) {
	a, err := CompareMeasured(measured(exporttest.NewShop()), flamegraph.Wall)
	if err != nil {
		t.Fatal(err)
	}
	b, err := CompareMeasured(laterShop(), flamegraph.Wall)
	if err != nil {
		t.Fatal(err)
	}
	var page, again bytes.Buffer
	for _, w := range []*bytes.Buffer{&page, &again} {
		if err := WriteHTMLDifference(w, a, b, flamegraph.Wall); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(page.Bytes(), again.Bytes()) {
		t.Error("the same two give two pages")
	}
	data := exporttest.PageData(t, page.Bytes())
	want := comparison{}
	for i, c := range []*Comparable{&a, &b} {
		for k, v := range c.stacks {
			want.add(i, k.state, float64(v)/float64(c.DurationNS)*1e6)
		}
	}
	for i, s := range data["states"].([]any) {
		for side := range 2 {
			got := data["byState"].([]any)[i].([]any)[side].(float64)
			if w := want[s.(string)]; w == nil || got < w[side]-float64(len(a.stacks)) || got > w[side]+float64(len(a.stacks)) {
				t.Errorf("%v: %v, want %v", s, got, w)
			}
		}
	}
	if n := len(data["stacks"].([]any)); n%4 != 0 || n/4 < len(a.stacks) {
		t.Errorf("%d numbers of stacks", n)
	}
}

// TestHTMLDifferenceIsBounded: if there are very many stacks, the page must have only the stacks with the most time.
// Making the page must take little memory in addition to the stacks.
func TestHTMLDifferenceIsBounded(t *testing.T) {
	rubytest.Long(t)
	var both [2]Comparable
	for side := range both {
		both[side] = Comparable{About: "big", DurationNS: 60e9, stacks: make(map[comparedKey]int64)}
		for i := range 200_000 {
			stack := fmt.Sprintf("main;Server#run;App::Module%d#call;Model%d#find_%d;Row%d#read%s", i%50, i%1000, i%20_000, i, strings.Repeat("x", side*(i%2)))
			both[side].add(strings.Split(stack, ";"), "running", int64(1e6+i*1000))
		}
	}
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	var peak atomic.Uint64
	stop, stopped := make(chan bool), make(chan bool)
	go func() { // ReadMemStats can miss the peak, so the test measures too little rather than too much
		defer close(stopped)
		var m runtime.MemStats
		for {
			select {
			case <-stop:
				return
			default:
				runtime.ReadMemStats(&m)
				peak.Store(max(peak.Load(), m.HeapAlloc))
				runtime.Gosched()
			}
		}
	}()
	var page bytes.Buffer
	err := WriteHTMLDifference(&page, both[0], both[1], flamegraph.Wall)
	close(stop)
	<-stopped
	if err != nil {
		t.Fatal(err)
	}
	grown := (int64(peak.Load()) - int64(before.HeapAlloc)) >> 20
	t.Logf("page of %d bytes, %d MB of memory", page.Len(), grown)
	if page.Len() > 3_000_000 {
		t.Errorf("a page of %d bytes", page.Len())
	}
	if grown > 150 {
		t.Errorf("%d MB of memory", grown)
	}
	if text := fmt.Sprint(exporttest.PageData(t, page.Bytes())["limits"]); !strings.Contains(text, "weigh most") {
		t.Errorf("what is left out is not said: %s", text)
	}
}

// FuzzHTMLDifference: whatever a function or state is called, its name must not become markup on the page.
func FuzzHTMLDifference(f *testing.F) {
	f.Add("a", "b")
	f.Add(exporttest.HostileName, "</script>")
	f.Fuzz(func(t *testing.T, name, state string) {
		a := Comparable{About: name, DurationNS: 1e9, stacks: map[comparedKey]int64{}}
		a.add([]string{weights.CollapsedName(name), name}, state, 7e6)
		var page bytes.Buffer
		if err := WriteHTMLDifference(io.MultiWriter(&page), a, a, flamegraph.Wall); err != nil {
			t.Fatal(err)
		}
		exporttest.CheckHarmless(t, page.Bytes())
	})
}
