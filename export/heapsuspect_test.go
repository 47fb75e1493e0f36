package export

import (
	"testing"

	"github.com/ddtop/ddtop/report"
)

// TestSuspect: the suspect (the class to examine first) is the program's own growing class with the most bytes. If only
// classes of Ruby grow, the suspect is the first class in the list.
func TestSuspect(t *testing.T) {
	for _, c := range []struct {
		classes      []string
		want, others string
	}{
		{nil, "", ""},
		{[]string{"String"}, "String", ""},
		{[]string{"String", "Hash"}, "String", "; so does Hash"},
		{[]string{"String", "Array", "Session", "Hash"}, "Session", "; so do String, Array and 1 more"},
		{[]string{"Session", "String", "Order"}, "Session", "; so do String, Order"},
	} {
		h := &Heap{Heap: report.Heap{Growth: &report.HeapGrowth{}}}
		for _, name := range c.classes {
			h.Growth.Classes = append(h.Growth.Classes, report.HeapGrowing{Name: name})
		}
		k, others := h.Suspect()
		if c.want == "" != (k == nil) || k != nil && k.Name != c.want || others != c.others {
			t.Errorf("%v: %+v, %q", c.classes, k, others)
		}
	}
}
