package sampler

import "testing"

func TestFrom(t *testing.T) {
	for _, tc := range []struct {
		f       Frame
		want    Origin
		own     bool
		library string
	}{
		{Frame{AbsolutePath: "/srv/app/models/order.rb"}, OriginApp, true, ""},
		{Frame{Path: "bin/server"}, OriginApp, true, ""},
		{Frame{AbsolutePath: "/usr/local/bundle/gems/redis-5.3.0/lib/redis.rb"}, OriginGem, false, "gem"},
		{Frame{AbsolutePath: "/usr/lib/ruby/gems/3.4.0/gems/rake-13.2.1/lib/rake.rb"}, OriginGem, false, "gem"},
		{Frame{AbsolutePath: "/app/vendor/ruby/3.4.0/bundler/gems/x-0123abc/lib/x.rb"}, OriginGem, false, "gem"},
		{Frame{AbsolutePath: "/usr/share/rubygems-integration/all/gems/rake-13.0.6/lib/rake.rb"}, OriginGem, false, "gem"},
		{Frame{AbsolutePath: "/usr/lib/ruby/3.4.0/json/common.rb"}, OriginStdlib, false, "json"},
		{Frame{AbsolutePath: "/usr/lib/ruby/3.4.0/monitor.rb"}, OriginStdlib, false, "monitor"},
		{Frame{AbsolutePath: "/usr/share/ruby/set.rb", Origin: OriginStdlib}, OriginStdlib, false, "set"},
		{Frame{Path: "<internal:kernel>"}, OriginCore, false, "ruby"},
		{Frame{Path: "/srv/app/models/order.rb", C: true}, OriginCore, false, "ruby"},
		{Frame{AbsolutePath: "/odd/place.rb", Origin: OriginGem, Gem: "rack 2.2.7"}, OriginGem, false, "rack"},
		{Frame{Path: "config.ru", Origin: OriginEval}, OriginEval, true, ""},
		{Frame{Path: "app/views/orders/index.html.erb", Origin: OriginEval}, OriginEval, true, ""},
		{Frame{Path: "(eval)", Origin: OriginEval}, OriginEval, false, "ruby"},
		{Frame{Path: "(eval at /srv/app/a.rb:3)", Origin: OriginEval}, OriginApp, true, ""},
		{Frame{Path: "(eval at /x/gems/a-1/lib/a.rb:3)", Origin: OriginEval}, OriginGem, false, "gem"},
		{Frame{Path: "(eval at (eval at /x/gems/a-1/lib/a.rb:3):1)"}, OriginGem, false, "gem"},
		{Frame{}, OriginApp, true, ""},
	} {
		f := tc.f
		if got := f.From(); got != tc.want {
			t.Errorf("%+v: from %s, want %s", f, got, tc.want)
		}
		if got := f.Own(); got != tc.own {
			t.Errorf("%+v: own is %v", f, got)
		}
		if !tc.own && f.Library() != tc.library {
			t.Errorf("%+v: library %q, want %q", f, f.Library(), tc.library)
		}
	}
}
