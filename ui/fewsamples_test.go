package ui

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/scene"
)

// TestGoldenFewSamples: three samples a second are too few for some figures. The views of threads, requests and waits
// must not show these figures. They show – instead, and say why.
func TestGoldenFewSamples(t *testing.T) {
	src := demosource.New(demosource.Options{Length: 10 * time.Second, Serving: true})
	store, err := newStore(src, scene.Options{})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	err = src.Run(t.Context(), func(x *sampler.Sample) {
		if n++; n%330 == 1 {
			x.Self.Lowered, x.Self.Extended = true, true
			store.Feed(x)
		}
	})
	if !errors.Is(err, sampler.ErrEnded) {
		t.Fatal(err)
	}
	percent := regexp.MustCompile(`[0-9] %`)
	for _, v := range []struct {
		name, key, why string
		// bare is a text on the screen. After this text, no percentage may follow. bare is empty if percentages are
		// allowed on the whole screen.
		bare string
	}{
		{"few-threads", "2", "states –: ", ""},
		{"few-requests", "9", "requests –: ", "by route: requests –: "},
		{"few-waits", "0", "waits –: ", ""},
	} {
		goldens(t, v.name, func(t *testing.T, o scene.Options, width, height int) Picture {
			p, err := pictureOf(store, o.WithDefaults(), width, height, v.key)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(p.Text, v.why) {
				t.Errorf("%s does not say why", v.name)
			}
			_, rest, _ := strings.Cut(p.Text, v.bare)
			if v.bare != "" && percent.MatchString(rest) {
				t.Errorf("a share is told behind %q:\n%s", v.bare, rest)
			}
			return p
		})
	}
}
