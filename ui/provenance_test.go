package ui

import (
	"testing"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/style"
)

func TestProvenanceOf(t *testing.T) {
	for _, tc := range []struct {
		f    sampler.Frame
		want style.Provenance
	}{
		{sampler.Frame{AbsolutePath: "/srv/app/models/order.rb"}, style.FromApp},
		{sampler.Frame{Path: "bin/server"}, style.FromApp},
		{sampler.Frame{AbsolutePath: "/usr/local/bundle/gems/redis-5.3.0/lib/redis.rb"}, style.FromGem},
		{sampler.Frame{AbsolutePath: "/usr/lib/ruby/gems/3.4.0/gems/rake-13.2.1/lib/rake.rb"}, style.FromGem},
		{sampler.Frame{AbsolutePath: "/app/vendor/ruby/3.4.0/bundler/gems/x-0123abc/lib/x.rb"}, style.FromGem},
		{sampler.Frame{AbsolutePath: "/usr/lib/ruby/3.4.0/json/common.rb"}, style.FromStdlib},
		{sampler.Frame{Path: "<internal:kernel>"}, style.FromCore},
		{sampler.Frame{Path: "/srv/app/models/order.rb", C: true}, style.FromCore},
		{sampler.Frame{AbsolutePath: "/odd/place.rb", Origin: sampler.OriginGem}, style.FromGem},
		{sampler.Frame{Path: "/srv/app/a.rb", C: true, Origin: sampler.OriginGem}, style.FromGem},
	} {
		if got := style.ProvenanceOf(tc.f); got != tc.want {
			t.Errorf("%+v: %s, want %s", tc.f, got, tc.want)
		}
	}
}
