package sampler

import "testing"

func TestHideDirectories(t *testing.T) {
	d := NewDictionary()
	for in, want := range map[string]string{
		"/srv/customer/app/models/order.rb": "order.rb", "/home/My Name/x y.rb": "x y.rb", "order.rb": "order.rb", "": "",
		"<internal:kernel>": "<internal:kernel>", "<internal:/usr/lib/ruby/x.rb>": "<internal:x.rb>",
		"(eval at /srv/customer/a.rb:3)": "(eval at a.rb:3)", "/": "",
	} {
		id := d.InternFrame(Frame{Label: "x", Path: in, AbsolutePath: in, Line: 3})
		peer := d.InternPeer(Peer{Kind: PeerFile, Path: in, Remote: in})
		d.HideDirectories(true)
		if f := d.Frame(id); f.Path != want || f.AbsolutePath != want || f.Label != "x" || f.Line != 3 {
			t.Errorf("%q: %+v", in, f)
		}
		if p := d.Peer(peer); p.Path != want || p.Remote != want {
			t.Errorf("%q: %+v", in, p)
		}
		d.HideDirectories(false)
		if f := d.Frame(id); f.Path != in {
			t.Errorf("%q comes back as %+v", in, f)
		}
	}
	// A name within brackets or parentheses is put together anew; that of a file is a part of its path.
	file := d.InternFrame(Frame{Label: "x", Path: "/srv/a/b.rb", AbsolutePath: "/srv/a/b.rb"})
	if n := testing.AllocsPerRun(100, func() { d.HideDirectories(true); _ = d.Frame(file) }); n != 0 {
		t.Errorf("%g allocations", n)
	}
}
