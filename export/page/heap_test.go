package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/internal/exporttest"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/growth"
)

// leakingHeap is a heap that was counted ten times. One class gains 200 objects from each count to the next. The heap
// has more classes than a page lists. The growing class has the fewest objects, so the page lists it only because it
// grows.
func leakingHeap(leaked string) *export.Heap {
	watch := new(growth.Watch)
	var c *sampler.HeapCount
	for i := range uint64(10) {
		n := 1000 + 200*i
		c = &sampler.HeapCount{BeganNS: int64(i) * 10e9, EndedNS: int64(i)*10e9 + 1e9, Pages: 1025, Skipped: 3, Collections: 2 * i, Majors: i, Objects: n}
		for class := range shownClasses + 5 {
			c.Classes = append(c.Classes, sampler.HeapKind{Name: fmt.Sprintf("Class%d", class), Objects: 9000, Old: 8000, SlotBytes: 1e6, OtherBytes: 5, Unsized: uint64(class % 2)})
		}
		c.Classes = append(c.Classes, sampler.HeapKind{Name: leaked, Objects: n, Old: n, SlotBytes: 40 * n})
		c.Types = []sampler.HeapKind{{Name: "T_OBJECT", Objects: n, Old: n, SlotBytes: 40e6}}
		watch.Add(c)
	}
	return export.NewHeap(sampler.Process{PID: 7}, c, watch)
}

// TestPageHasObjects: the page's table of classes must have the same figures as heap.json for the same count. A page
// without a count must have no table.
func TestPageHasObjects(t *testing.T) {
	n := hostileIncident("puma")
	if data := exporttest.PageData(t, incidentPage(t, n)); data["heap"] != nil {
		t.Errorf("objects without a count: %v", data["heap"])
	}
	n.Heap = leakingHeap("Session")
	var text bytes.Buffer
	if err := n.Heap.WriteJSON(&text); err != nil {
		t.Fatal(err)
	}
	var want report.Heap
	if err := json.Unmarshal(text.Bytes(), &want); err != nil {
		t.Fatal(err)
	}
	if len(want.Growth.Classes) != 1 {
		t.Fatalf("%+v", want.Growth)
	}
	heap := exporttest.PageData(t, incidentPage(t, n))["heap"].(map[string]any)
	said := fmt.Sprint(heap["said"])
	if !strings.Contains(said, "1025 pages read in 1 s") || !strings.Contains(said, "3 pages changed meanwhile") || !strings.Contains(said, "5 smaller classes are not listed") {
		t.Error(said)
	}
	rows := heap["classes"].([]any)
	if len(rows) != shownClasses+1 {
		t.Fatalf("%d classes", len(rows))
	}
	for i, row := range rows {
		x, k := row.(map[string]any), want.Classes[i]
		rate, suspect := 0.0, false
		if i == shownClasses {
			k = want.Classes[len(want.Classes)-1]
			rate, suspect = want.Growth.Classes[0].ObjectsPerSecond, true
		}
		if x["name"] != k.Name || x["objects"] != float64(k.Objects) || x["old"] != float64(k.Old) || x["bytes"] != float64(k.Bytes) || x["share"] != k.Share ||
			x["rate"] != rate || x["suspect"] != suspect || strings.HasSuffix(x["size"].(string), "+") != (k.Unsized > 0) {
			t.Errorf("%v is not %+v", x, k)
		}
	}
	if last := fmt.Sprint(rows[shownClasses]); !strings.Contains(last, "Session fills, 20/s") {
		t.Error(last)
	}
}

// TestHostileClassesOnPage: if the name of a class contains HTML, it must not become markup on the page.
func TestHostileClassesOnPage(t *testing.T) {
	n := hostileIncident(exporttest.HostileName)
	n.Heap = leakingHeap(exporttest.HostileName)
	page := incidentPage(t, n)
	exporttest.CheckHarmless(t, page)
	exporttest.EachString(exporttest.PageData(t, page)["heap"], func(s string) { exporttest.CheckPrintable(t, "a class", s) })
}
