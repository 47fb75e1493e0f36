package redact

import (
	"strings"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

func TestHideDirectories(t *testing.T) {
	d := sampler.NewDictionary()
	for in, want := range map[string]string{
		"/srv/customer/app/models/order.rb": "order.rb", "/home/My Name/x y.rb": "x y.rb", "order.rb": "order.rb", "": "",
		"app/models/order.rb": "order.rb", "../Kundin Müller/x.rb": "x.rb",
		"<internal:kernel>": "<internal:kernel>", "<internal:/usr/lib/ruby/x.rb>": "<internal:x.rb>",
		"(eval at /srv/customer/a.rb:3)": "(eval at a.rb:3)", "/": "",
		"(eval at (eval at /srv/the customer/a.rb:3):7)": "(eval at (eval at a.rb:3):7)",
	} {
		id := d.InternFrame(sampler.Frame{Label: "x", Path: in, AbsolutePath: in, Line: 3})
		peer := d.InternPeer(sampler.Peer{Kind: sampler.PeerFile, Path: in, Remote: in})
		HideDirectories(d, true)
		if f := d.Frame(id); f.Path != want || f.AbsolutePath != want || f.Label != "x" || f.Line != 3 {
			t.Errorf("%q: %+v", in, f)
		}
		if p := d.Peer(peer); p.Path != want || p.Remote != want {
			t.Errorf("%q: %+v", in, p)
		}
		HideDirectories(d, false)
		if f := d.Frame(id); f.Path != in {
			t.Errorf("%q comes back as %+v", in, f)
		}
	}
	// If the directories of a frame were hidden before, hiding them again must allocate no memory.
	file := d.InternFrame(sampler.Frame{Label: "x", Path: "/srv/a/b.rb", AbsolutePath: "/srv/a/b.rb"})
	if n := testing.AllocsPerRun(100, func() { HideDirectories(d, true); _ = d.Frame(file) }); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

// TestViewsHideByThemselves: hiding directories in one view of a Dictionary does not change another view. Both views
// also have values that are added later.
func TestViewsHideByThemselves(t *testing.T) {
	d := sampler.NewDictionary()
	HideDirectories(d, true)
	hidden := d.View()
	HideDirectories(d, false)
	id := d.InternFrame(sampler.Frame{Label: "x", Path: "/srv/a/b.rb"})
	if f := d.Frame(id); f.Path != "/srv/a/b.rb" {
		t.Errorf("the first: %+v", f)
	}
	if f := hidden.Frame(id); f.Path != "b.rb" {
		t.Errorf("the view: %+v", f)
	}
	if redacted := New().View(d); redacted.View().Frame(id).Path != "b.rb" || !redacted.View().HidesDirectories() {
		t.Error("a view of a redacted one is not redacted")
	}
}

func TestBareText(t *testing.T) {
	for in, want := range map[string]string{
		"open /srv/app/x.rb: permission denied":               "open x.rb: permission denied",
		"open /srv/my app/x y.rb: permission denied":          "open x y.rb: permission denied",
		`the file "/home/al ice/a b.rb" is gone`:              `the file "a b.rb" is gone`,
		"no Ruby (/opt/ac me/bin/ruby)":                       "no Ruby (ruby)",
		"waits for I/O, 10 /s, on tcp://x and 3 MB/s":         "waits for I/O, 10 s, on tcp://x and 3 MB/s",
		"in models/customer x/order.rb:3 (known), /tmp alone": "in order.rb:3 (known), tmp alone",
	} {
		if got := BareText(in, "models/customer x/order.rb", "", "/"); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	// No part of a folder's name may stay in the text. One of these paths begins with the other, so the longer one must
	// be removed as a whole.
	if got := BareText("wrote /a b/c d/e.txt", "/a b/c d/", "/a b"); got != "wrote e.txt" {
		t.Error(got)
	}
	// If a folder is known, neither its name nor the name of a folder inside it stays in the text.
	for _, folder := range []string{"/srv/acme, inc", "/srv/acme, inc/", "acme inc", "rel/acme"} {
		text := "reading " + strings.TrimRight(folder, "/") + "/usr/lib/x.so: no"
		if got := BareText(text, folder); got != "reading x.so: no" {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestBare(t *testing.T) {
	p := sampler.Process{PID: 3, Title: "puma", User: "alice", Host: "web-1", CommandLine: []string{"puma"},
		LayoutNote: "its layout comes from the debug information in /home/al, ice (x)/1:2/ab.json, verified on this process"}
	b := Bare(p)
	if b.User+b.Host != "" || b.CommandLine != nil || b.PID != 3 || b.Title != "puma" ||
		b.LayoutNote != "its layout comes from the debug information in ab.json, verified on this process" {
		t.Errorf("%+v", b)
	}
	p.LayoutNote = "its layout comes from the debug information in my customer/lib.debug, verified on this process"
	if b := Bare(p); b.LayoutNote != "its layout comes from the debug information in lib.debug, verified on this process" {
		t.Errorf("a relative path: %+v", b)
	}
	if p.User == "" {
		t.Error("the original was changed")
	}
}
