package export

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/exporttest"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// TestDumpNative: native frames come before the Ruby frames. Consecutive functions without a name are one line. The
// dump says which native frames are missing and why.
func TestDumpNative(t *testing.T) {
	s := exporttest.NewShop()
	named := func(library, name string) sampler.NativeFrame {
		return sampler.NativeFrame{Library: library, Name: name, Path: "/lib/" + library + ".so", BuildID: "ab12",
			Offset: 0x1234, Function: 0x1200}
	}
	d := dumpOf(s)
	first, second, third := d.Threads[0].ID, d.Threads[1].ID, d.Threads[2].ID
	d.SetNative([]report.StatNative{{TID: 77, Name: "grpc"}, {TID: 78, Name: "busy"}},
		map[sampler.ThreadID]sampler.NativeStack{
			first: {Frames: []sampler.NativeFrame{named("libc", "poll"), named("libpq", ""), named("libpq", ""),
				named("libpq", "PQ\x1bgetResult"),
				named("libpq", ""), named("libruby", ""), {Library: "[vdso]"}}},
			second: {Missing: "it moves"},
			third:  {Frames: []sampler.NativeFrame{named("libc", "read")}, Missing: "a register", Kernel: "waits for\x1b NFS"},
		}, map[int32]sampler.NativeStack{77: {Frames: []sampler.NativeFrame{named("libc", "epoll_wait")}}}, "")
	var text bytes.Buffer
	if err := d.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\n    at poll [libc]\n    at libpq (2 functions)\n    at PQ\uFFFDgetResult [libpq]\n" +
			"    at libpq (1 function)\n" +
			"    at libruby (1 function)\n    at [vdso] (1 function)\n    at ",
		"\n  (no native frames: it moves)\n    at ",
		"\n  (kernel: waits for\uFFFD NFS)\n  (outer native frames are missing: a register)\n    at read [libc]\n    at ",
		"\n  grpc tid=77 cpu=0.00s\n    at epoll_wait [libc]\n  busy tid=78 cpu=0.00s\n\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	var v Dump
	if err := json.Unmarshal(dumpJSON(t, d), &v); err != nil {
		t.Fatal(err)
	}
	f := v.Threads[0].Native.Frames
	if len(f) != 7 || f[1].Name != nil || *f[0].Name != "poll" || *f[0].BuildID != "ab12" ||
		f[0].Offset != 0x1234 || *f[0].Function != 0x1200 ||
		f[6].BuildID != nil || f[6].Function != nil || v.Threads[0].Native.Missing != nil ||
		v.Threads[3].Native != nil ||
		*v.Threads[1].Native.Missing != "it moves" || v.NativeThreads[1].Native != nil ||
		v.NativeThreads[0].TID != 77 || v.NativeMissing != nil {
		t.Errorf("%+v", v.Threads[0].Native)
	}

	d = dumpOf(s)
	d.SetNative(nil, nil, nil, "the kernel does not tell")
	text.Reset()
	if err := d.WriteText(&text); err != nil || !strings.Contains(text.String(),
		"\nno native stacks: the kernel does not tell\nread in") {
		t.Errorf("%v in\n%s", err, text.String())
	}
}
