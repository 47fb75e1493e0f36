package code

import (
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

func TestSplitGem(t *testing.T) {
	for full, want := range map[string][2]string{
		"rack-2.2.7":                             {"rack", "2.2.7"},
		"aws-sdk-s3-1.143.0":                     {"aws-sdk-s3", "1.143.0"},
		"nokogiri-1.16.0-x86_64-linux":           {"nokogiri", "1.16.0"},
		"google-protobuf-3.25.1-arm64-darwin-21": {"google-protobuf", "3.25.1"},
		"sqlite3-2.0.0.rc1-x86_64-linux-gnu":     {"sqlite3", "2.0.0.rc1"},
		"oauth-2-helper-1.0":                     {"oauth-2-helper", "1.0"},
		"jdbc-mysql-8.0.30-java":                 {"jdbc-mysql", "8.0.30"},
		"a-1":                                    {"a", "1"},
		"rack":                                   {}, "3.4.0": {}, "rack-": {}, "-1": {}, "": {}, "my-app": {}, "rails-1a2b3c4d5e6f": {},
	} {
		if name, version := splitGem(full); name != want[0] || version != want[1] {
			t.Errorf("%s: %q %q, want %v", full, name, version, want)
		}
	}
}

func TestOrigins(t *testing.T) {
	debian := []string{
		"/srv/shop/lib", "relative", "", "/srv/gems/shop/lib",
		"/var/lib/gems/3.1.0/gems/rack-2.2.7/lib", "/usr/share/rubygems-integration/all/gems/rake-13.0.6/lib",
		"/srv/bundle/ruby/3.1.0/bundler/gems/rails-1a2b3c4d5e6f/activerecord/lib",
		"/usr/local/lib/site_ruby/3.1.0", "/usr/local/lib/x86_64-linux-gnu/site_ruby", "/usr/local/lib/site_ruby",
		"/usr/lib/ruby/vendor_ruby/3.1.0", "/usr/lib/x86_64-linux-gnu/ruby/vendor_ruby/3.1.0", "/usr/lib/ruby/vendor_ruby",
		"/usr/lib/ruby/3.1.0", "/usr/lib/x86_64-linux-gnu/ruby/3.1.0", "/srv/shop/app/",
	}
	fedora := []string{"/usr/local/share/ruby/site_ruby", "/usr/local/lib64/ruby/site_ruby", "/usr/share/ruby/vendor_ruby",
		"/usr/lib64/ruby/vendor_ruby", "/usr/share/ruby", "/usr/lib64/ruby", "/opt/shop"}
	tests := []struct {
		loadPath  []string
		path, abs string
		origin    sampler.Origin
		gem       string
	}{
		{debian, "<internal:kernel>", "", sampler.OriginCore, ""},
		{debian, "(eval)", "/srv/shop/lib/a.rb", sampler.OriginApp, ""}, // 2.7 has the absolute path of the file that calls eval
		{debian, "(eval)", "", sampler.OriginEval, ""},
		{debian, "(eval at /srv/shop/lib/a.rb:3)", "", sampler.OriginApp, ""},
		{debian, "(eval at (eval at /srv/shop/lib/a.rb:3):1)", "", sampler.OriginApp, ""},
		{debian, "(eval at app.rb:3)", "", sampler.OriginApp, ""},
		{debian, "(eval at -e:3)", "", sampler.OriginApp, ""},
		{debian, "(eval at (eval):3)", "", sampler.OriginEval, ""},
		{debian, "(eval at /var/lib/gems/3.1.0/gems/rack-2.2.7/lib/rack.rb:3)", "", sampler.OriginGem, "rack 2.2.7"},
		{debian, "(eval at <internal:kernel>:3)", "", sampler.OriginCore, ""},
		{debian, "", "/app/vendor/bundle/ruby/3.1.0/gems/puma-6.4.0/lib/puma.rb", sampler.OriginGem, "puma 6.4.0"},
		{debian, "", "/app/vendor/ruby/3.1.0/bundler/gems/x-0123abc/lib/x.rb", sampler.OriginGem, "x 0123abc"},
		{debian, "", "/app/.bundle/ruby/3.1.0/gems/puma-6.4.0/lib/puma.rb", sampler.OriginGem, "puma 6.4.0"},
		{debian, "", "/app/vendor/cache/rails-1a2b3c4d5e6f/activerecord/lib/a.rb", sampler.OriginGem, "rails 1a2b3c4d5e6f"},
		{debian, "", "/app/vendor/gems/tiny/lib/tiny.rb", sampler.OriginGem, "tiny"},
		{debian, "", "/app/app/models/order.rb", sampler.OriginApp, ""},
		{debian, "", "/app/engines/billing/app/models/bill.rb", sampler.OriginApp, ""},
		{debian, "", "/app/gems/billing/lib/billing.rb", sampler.OriginApp, ""},
		{[]string{"/home/me/tiny/lib", "/usr/lib/ruby/3.1.0"}, "", "/home/me/tiny/lib/tiny.rb", sampler.OriginApp, ""},
		{[]string{"/home/me/gems/tiny-1.2/lib", "/usr/lib/ruby/3.1.0"}, "", "/home/me/gems/tiny-1.2/lib/tiny.rb", sampler.OriginGem, "tiny 1.2"},
		{debian, "template.erb", "", sampler.OriginEval, ""},
		{debian, "/srv/shop/lib/a.rb", "", sampler.OriginApp, ""},
		{debian, "-e", "", sampler.OriginApp, ""},
		{debian, "app.rb", "/srv/shop/app.rb", sampler.OriginApp, ""},
		{debian, "/srv/gems/shop/lib/a.rb", "/srv/gems/shop/lib/a.rb", sampler.OriginApp, ""},
		{debian, "", "/usr/lib/ruby/3.1.0/json/common.rb", sampler.OriginStdlib, ""},
		{debian, "", "/usr/lib/x86_64-linux-gnu/ruby/3.1.0/rbconfig.rb", sampler.OriginStdlib, ""},
		{debian, "", "/usr/lib/ruby/3.1.0x/a.rb", sampler.OriginApp, ""},
		{debian, "", "/usr/lib/ruby/vendor_ruby/rubygems/specification.rb", sampler.OriginStdlib, ""},
		{debian, "", "/usr/lib/ruby/vendor_ruby/rack/server.rb", sampler.OriginGem, "rack"},
		{debian, "", "/usr/lib/ruby/vendor_ruby/3.1.0/oj.rb", sampler.OriginGem, "oj"},
		{debian, "", "/var/lib/gems/3.1.0/gems/rack-2.2.7/lib/rack.rb", sampler.OriginGem, "rack 2.2.7"},
		{debian, "", "/usr/share/rubygems-integration/all/gems/rake-13.0.6/exe/rake", sampler.OriginGem, "rake 13.0.6"},
		{debian, "", "/srv/bundle/ruby/3.1.0/bundler/gems/rails-1a2b3c4d5e6f/activerecord/lib/a.rb", sampler.OriginGem, "rails 1a2b3c4d5e6f"},
		// The load path does not have this file's folder, but the file's path has a gem's folder.
		{debian, "", "/srv/shop/lib/vendor/gems/tiny-0.1/lib/tiny.rb", sampler.OriginGem, "tiny 0.1"},
		// A gem's test files can contain gems. The innermost gem decides.
		{debian, "", "/var/lib/gems/3.1.0/gems/rack-2.2.7/test/gems/inner-1.0/a.rb", sampler.OriginGem, "inner 1.0"},
		{fedora, "", "/usr/share/ruby/json.rb", sampler.OriginStdlib, ""},
		{fedora, "", "/usr/lib64/ruby/rbconfig.rb", sampler.OriginStdlib, ""},
		{fedora, "", "/usr/share/ruby/vendor_ruby/rack.rb", sampler.OriginGem, "rack"},
		{fedora, "", "/opt/shop/a.rb", sampler.OriginApp, ""},
		// The load path has this file's folder through a symbolic link.
		{[]string{"/opt/ruby/lib/ruby/3.1.0"}, "/opt/ruby/lib/ruby/3.1.0/set.rb", "/opt/ruby-3.1.7/lib/ruby/3.1.0/set.rb", sampler.OriginStdlib, ""},
		// The load path could not be read.
		{nil, "", "/usr/lib/ruby/3.4.0/set.rb", sampler.OriginStdlib, ""},
		{nil, "", "/opt/r/lib/ruby/3.5.0+1/set.rb", sampler.OriginStdlib, ""},
		{nil, "", "/usr/lib/ruby/vendor_ruby/3.4.0/rack/a.rb", sampler.OriginGem, "rack"},
		{nil, "", "/x/gems/rack-3.0/lib/rack.rb", sampler.OriginGem, "rack 3.0"},
		{nil, "", "/home/me/ruby/shop/a.rb", sampler.OriginApp, ""},
	}
	for _, tt := range tests {
		o := newOrigins(tt.loadPath, "3.1.")
		if origin, gem := o.of(tt.path, tt.abs); origin != tt.origin || gem != tt.gem {
			t.Errorf("%q %q: %v %q, want %v %q", tt.path, tt.abs, origin, gem, tt.origin, tt.gem)
		}
	}
}

// FuzzOrigins splits any paths. None may cause a panic.
func FuzzOrigins(f *testing.F) {
	f.Add("/gems/gems/a-1/x", "/a/bundler/gems/b-0123456789/", "/usr/lib/ruby/vendor_ruby")
	f.Add("//gems//", "/gems/-1-/", "/site_ruby/")
	f.Fuzz(func(t *testing.T, file, entry, entry2 string) {
		o := newOrigins([]string{entry, entry2}, "3.4.")
		origin, gem := o.of(file, file)
		if (gem != "") != (origin == sampler.OriginGem) && origin != sampler.OriginGem {
			t.Errorf("%q of %q, %q: %v %q", file, entry, entry2, origin, gem)
		}
	})
}

func BenchmarkOrigin(b *testing.B) {
	o := newOrigins([]string{"/srv/shop/lib", "/var/lib/gems/3.1.0/gems/rack-2.2.7/lib", "/usr/lib/ruby/3.1.0"}, "3.1.")
	b.ReportAllocs()
	for b.Loop() {
		o.of("/var/lib/gems/3.1.0/gems/rack-2.2.7/lib/rack.rb", "/var/lib/gems/3.1.0/gems/rack-2.2.7/lib/rack.rb")
	}
}
