package ui

import (
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

func TestProvenanceOf(t *testing.T) {
	for _, tc := range []struct {
		f    sampler.Frame
		want provenance
	}{
		{sampler.Frame{AbsolutePath: "/srv/app/models/order.rb"}, fromApp},
		{sampler.Frame{Path: "bin/server"}, fromApp},
		{sampler.Frame{AbsolutePath: "/usr/local/bundle/gems/redis-5.3.0/lib/redis.rb"}, fromGem},
		{sampler.Frame{AbsolutePath: "/usr/lib/ruby/gems/3.4.0/gems/rake-13.2.1/lib/rake.rb"}, fromGem},
		{sampler.Frame{AbsolutePath: "/app/vendor/ruby/3.4.0/bundler/gems/x-0123abc/lib/x.rb"}, fromGem},
		{sampler.Frame{AbsolutePath: "/usr/lib/ruby/3.4.0/json/common.rb"}, fromStdlib},
		{sampler.Frame{Path: "<internal:kernel>"}, fromCore},
		{sampler.Frame{Path: "/srv/app/models/order.rb", C: true}, fromCore},
		{sampler.Frame{AbsolutePath: "/odd/place.rb", Origin: sampler.OriginGem}, fromGem},
		{sampler.Frame{Path: "/srv/app/a.rb", C: true, Origin: sampler.OriginGem}, fromGem},
	} {
		if got := provenanceOf(tc.f); got != tc.want {
			t.Errorf("%+v: %s, want %s", tc.f, got, tc.want)
		}
	}
}
