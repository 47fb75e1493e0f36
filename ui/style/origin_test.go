package style

import (
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// TestOriginOf: if the recording has a frame's origin, OriginOf returns it. Otherwise OriginOf finds the origin from
// the frame's path.
func TestOriginOf(t *testing.T) {
	for _, tc := range []struct {
		f    sampler.Frame
		want sampler.Origin
	}{
		{sampler.Frame{AbsolutePath: "/srv/app/models/order.rb"}, sampler.OriginApp},
		{sampler.Frame{Path: "bin/server"}, sampler.OriginApp},
		{sampler.Frame{AbsolutePath: "/usr/local/bundle/gems/redis-5.3.0/lib/redis.rb"}, sampler.OriginGem},
		{sampler.Frame{AbsolutePath: "/usr/lib/ruby/gems/3.4.0/gems/rake-13.2.1/lib/rake.rb"}, sampler.OriginGem},
		{sampler.Frame{AbsolutePath: "/app/vendor/ruby/3.4.0/bundler/gems/x-0123abc/lib/x.rb"}, sampler.OriginGem},
		{sampler.Frame{AbsolutePath: "/usr/lib/ruby/3.4.0/json/common.rb"}, sampler.OriginStdlib},
		{sampler.Frame{Path: "<internal:kernel>"}, sampler.OriginCore},
		{sampler.Frame{Path: "/srv/app/models/order.rb", C: true}, sampler.OriginCore},
		{sampler.Frame{AbsolutePath: "/odd/place.rb", Origin: sampler.OriginGem}, sampler.OriginGem},
		{sampler.Frame{Path: "/srv/app/a.rb", C: true, Origin: sampler.OriginGem}, sampler.OriginGem},
	} {
		if got := OriginOf(tc.f); got != tc.want {
			t.Errorf("%+v: %s, want %s", tc.f, got, tc.want)
		}
	}
}
