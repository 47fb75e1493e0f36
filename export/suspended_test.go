package export

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

func TestDumpOfSuspendedFibers(t *testing.T) {
	dict := sampler.NewDictionary()
	at := func(label string) sampler.StackID {
		return dict.InternStackOf([]sampler.FrameID{dict.InternFrame(sampler.Frame{Label: label, Name: label, Path: "a.rb", Line: 3})})
	}
	fetch, nap := at("Shop#fetch"), at("Shop#nap")
	serves := func(number sampler.WorkNumber, endpoint string) sampler.Serving {
		return sampler.Serving{Work: dict.InternWork(sampler.Work{Number: number, Kind: sampler.WorkRequest, Endpoint: endpoint})}
	}
	s := &sampler.Sample{Threads: []sampler.Thread{{ID: 1}, {ID: 2}}}
	d := NewDump(sampler.Process{}, dict, s, nil)
	if d.SuspendedFibers != nil || d.Threads[0].Suspended == nil {
		t.Errorf("before they were looked for: %+v, %+v", d.SuspendedFibers, d.Threads[0].Suspended)
	}
	d.SetFibers(sampler.Fibers{Cut: true, List: []sampler.Fiber{
		{Thread: 2, Stack: nap, Serving: serves(1, "GET /x")}, {Thread: 2, Stack: fetch}, {Thread: 1, Stack: fetch}, {Thread: 2, Created: true}, {Thread: 2, Stack: fetch},
		{Thread: 9, Stack: fetch}, {Thread: 1},
	}}, dict)
	if f := d.SuspendedFibers; f.Count != 7 || f.Created != 1 || !f.Cut {
		t.Errorf("%+v", f)
	}
	var b bytes.Buffer
	if err := d.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"fibers: 6 suspended, 1 not started yet, 1 of them for requests and jobs (and perhaps more: only a part of the heap was looked through)\n",
		"  1 fiber suspended:\n    at Shop#fetch (a.rb:3)\n  1 fiber suspended (the stack could not be read)\n\n#2",
		"  2 fibers suspended:\n    at Shop#fetch (a.rb:3)\n  1 fiber suspended:\n    1 for GET /x\n    at Shop#nap (a.rb:3)\n  1 fiber not started yet\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s\ndoes not say\n%s", b.String(), want)
		}
	}
}
