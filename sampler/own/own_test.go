package own

import (
	"testing"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/redact"
)

func TestOwnCode(t *testing.T) {
	app := sampler.Frame{AbsolutePath: "/app/lib/acme/order.rb", Origin: sampler.OriginApp}
	gem := sampler.Frame{AbsolutePath: "/bundle/gems/acme-billing-1.2/lib/bill.rb", Origin: sampler.OriginGem, Gem: "acme-billing 1.2"}
	rack := sampler.Frame{AbsolutePath: "/bundle/gems/rack-3.0/lib/rack.rb", Origin: sampler.OriginGem, Gem: "rack 3.0"}
	eval := sampler.Frame{Path: "(eval at /bundle/gems/acme-billing-1.2/lib/bill.rb:3)", Origin: sampler.OriginGem, Gem: "acme-billing 1.2"}
	c := sampler.Frame{Path: "/bundle/gems/acme-billing-1.2/lib/bill.rb", C: true, Origin: sampler.OriginCore}
	for _, tc := range []struct {
		globs                     []string
		app, gem, rack, eval, inC bool
	}{
		{nil, true, false, false, false, false},
		{[]string{"acme-*"}, true, true, false, true, false},
		{[]string{"acme"}, true, false, false, false, false},
		{[]string{"/bundle/gems/acme-*"}, true, true, false, true, false},
		{[]string{"/bundle/gems/acme-*/"}, true, true, false, true, false},
		{[]string{"/bundle"}, true, true, true, true, false},
		{[]string{"/bund"}, true, false, false, false, false},
		{[]string{"/**/bill.rb"}, true, true, false, true, false},
		{[]string{"/*/bill.rb"}, true, false, false, false, false},
		{[]string{"gems/acme-billing-?.*"}, true, true, false, true, false},
		{[]string{"/bundle", "!rack"}, true, true, false, true, false},
		{[]string{"/bündel", "/bundl[e]", "/bundle.gems"}, true, false, false, false, false},
		{[]string{"!/app/lib"}, false, false, false, false, false},
		{[]string{"!/app/lib", "/app/lib/acme"}, true, false, false, false, false},
	} {
		own, err := New(tc.globs)
		if err != nil {
			t.Fatal(err)
		}
		d := sampler.NewDictionary()
		of := func(f sampler.Frame) bool {
			id := d.InternFrame(f)
			f = own.View(d).View().Frame(id)
			return f.Own()
		}
		if got := [5]bool{of(app), of(gem), of(rack), of(eval), of(c)}; got != [5]bool{tc.app, tc.gem, tc.rack, tc.eval, tc.inC} {
			t.Errorf("%q: own are %v", tc.globs, got)
		}
		if raw := d.Frame(d.InternFrame(gem)); raw != gem {
			t.Errorf("%q changes what is interned: %+v", tc.globs, raw)
		}
	}
	for _, bad := range []string{"", "/", "!", "!/"} {
		if _, err := New([]string{bad}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// TestOwnCodeBeforeNamesAreHidden: patterns are compared with full paths, even if ddtop's output hides a part of the
// paths.
func TestOwnCodeBeforeNamesAreHidden(t *testing.T) {
	own, err := New([]string{"/bundle/gems/acme-*"})
	if err != nil {
		t.Fatal(err)
	}
	d := sampler.NewDictionary()
	id := d.InternFrame(sampler.Frame{Label: "Bill#pay", AbsolutePath: "/bundle/gems/acme-billing-1.2/lib/bill.rb", Origin: sampler.OriginGem, Gem: "acme-billing 1.2"})
	for name, v := range map[string]*sampler.Dictionary{"redacted": redact.New().View(own.View(d)), "redacted first": own.View(redact.New().View(d))} {
		if f := v.Frame(id); f.Origin != sampler.OriginApp {
			t.Errorf("%s: %+v", name, f)
		}
	}
	v := own.View(d)
	redact.HideDirectories(v, true)
	if f := v.Frame(id); f.Origin != sampler.OriginApp || f.AbsolutePath != "bill.rb" {
		t.Errorf("without directories: %+v", f)
	}
}
