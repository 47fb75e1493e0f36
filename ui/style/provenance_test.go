package style

import (
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

func TestProvenanceOf(t *testing.T) {
	for _, tc := range []struct {
		f    sampler.Frame
		want Provenance
	}{
		{sampler.Frame{AbsolutePath: "/srv/app/models/order.rb"}, FromApp},
		{sampler.Frame{Path: "bin/server"}, FromApp},
		{sampler.Frame{AbsolutePath: "/usr/local/bundle/gems/redis-5.3.0/lib/redis.rb"}, FromGem},
		{sampler.Frame{AbsolutePath: "/usr/lib/ruby/gems/3.4.0/gems/rake-13.2.1/lib/rake.rb"}, FromGem},
		{sampler.Frame{AbsolutePath: "/app/vendor/ruby/3.4.0/bundler/gems/x-0123abc/lib/x.rb"}, FromGem},
		{sampler.Frame{AbsolutePath: "/usr/lib/ruby/3.4.0/json/common.rb"}, fromStdlib},
		{sampler.Frame{Path: "<internal:kernel>"}, FromCore},
		{sampler.Frame{Path: "/srv/app/models/order.rb", C: true}, FromCore},
		{sampler.Frame{AbsolutePath: "/odd/place.rb", Origin: sampler.OriginGem}, FromGem},
		{sampler.Frame{Path: "/srv/app/a.rb", C: true, Origin: sampler.OriginGem}, FromGem},
	} {
		if got := ProvenanceOf(tc.f); got != tc.want {
			t.Errorf("%+v: %s, want %s", tc.f, got, tc.want)
		}
	}
}
