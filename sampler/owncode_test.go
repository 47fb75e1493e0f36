package sampler

import "testing"

func TestOwnCode(t *testing.T) {
	app := Frame{AbsolutePath: "/app/lib/acme/order.rb", Origin: OriginApp}
	gem := Frame{AbsolutePath: "/bundle/gems/acme-billing-1.2/lib/bill.rb", Origin: OriginGem, Gem: "acme-billing 1.2"}
	rack := Frame{AbsolutePath: "/bundle/gems/rack-3.0/lib/rack.rb", Origin: OriginGem, Gem: "rack 3.0"}
	eval := Frame{Path: "(eval at /bundle/gems/acme-billing-1.2/lib/bill.rb:3)", Origin: OriginGem, Gem: "acme-billing 1.2"}
	c := Frame{Path: "/bundle/gems/acme-billing-1.2/lib/bill.rb", C: true, Origin: OriginCore}
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
		own, err := NewOwnCode(tc.globs)
		if err != nil {
			t.Fatal(err)
		}
		d := NewDictionary()
		of := func(f Frame) bool {
			id := d.InternFrame(f)
			f = d.Owned(own).View().Frame(id)
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
		if _, err := NewOwnCode([]string{bad}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// TestOwnCodeBeforeNamesAreHidden: patterns are of the paths as they are, whatever is shown of them.
func TestOwnCodeBeforeNamesAreHidden(t *testing.T) {
	own, err := NewOwnCode([]string{"/bundle/gems/acme-*"})
	if err != nil {
		t.Fatal(err)
	}
	d := NewDictionary()
	id := d.InternFrame(Frame{Label: "Bill#pay", AbsolutePath: "/bundle/gems/acme-billing-1.2/lib/bill.rb", Origin: OriginGem, Gem: "acme-billing 1.2"})
	for name, v := range map[string]*Dictionary{"redacted": d.Owned(own).Redacted(NewRedactor()), "redacted first": d.Redacted(NewRedactor()).Owned(own)} {
		if f := v.Frame(id); f.Origin != OriginApp {
			t.Errorf("%s: %+v", name, f)
		}
	}
	v := d.Owned(own)
	v.HideDirectories(true)
	if f := v.Frame(id); f.Origin != OriginApp || f.AbsolutePath != "bill.rb" {
		t.Errorf("without directories: %+v", f)
	}
}
