package otlp

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/push"
)

func TestURLs(t *testing.T) {
	for _, c := range []struct{ url, name, to, host string }{
		{"otlp+http://127.0.0.1:4318", "otlp+http://127.0.0.1:4318", "http://127.0.0.1:4318/v1development/profiles", ""},
		{"otlp+http://box/", "otlp+http://box:4318", "http://box:4318/v1development/profiles", ""},
		{"otlp+https://otlp.example/in", "otlp+https://otlp.example/in", "https://otlp.example/in/v1development/profiles", ""},
		{"otlp+https://otlp.example/v1development/profiles", "otlp+https://otlp.example", "https://otlp.example/v1development/profiles", ""},
		{"otlp+grpc://[::1]", "otlp+grpc://[::1]:4317", "", "[::1]:4317"},
		{"otlp+grpcs://otlp.example:443", "otlp+grpcs://otlp.example:443", "", "otlp.example:443"},
	} {
		u, err := url.Parse(c.url)
		if err != nil {
			t.Fatal(err)
		}
		d, err := New(u, "", "0.1")
		if err != nil || d.String() != c.name || d.to != c.to || d.host != c.host {
			t.Errorf("%s: %+v, %v", c.url, d, err)
		}
	}
	for _, text := range []string{"otlp://x", "otlp+http://", "otlp+http://x?a=b", "otlp+http://me:secret@x", "otlp+grpc://x/path", "otlp+http://x#f"} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := New(u, "", "0.1"); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %+v, %v", text, d, err)
		}
	}
}

func TestHeaders(t *testing.T) {
	h, err := push.ParseHeaders("api-key=a%20b, Authorization=Basic%20x==,,empty=")
	if err != nil || h.Get("Api-Key") != "a b" || h.Get("Authorization") != "Basic x==" || len(h) != 3 {
		t.Errorf("%v, %v", h, err)
	}
	for _, text := range []string{"hunter2", "a b=hunter2", "a=hunter2%0a", "a=%zzhunter2", "=hunter2", "a:hunter2=1"} {
		if h, err := push.ParseHeaders(text); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v, %v", text, h, err)
		}
	}
}

// FuzzPartial: whatever a server answers, partial does not panic. Its errors are short, and do not repeat a header of
// the request.
func FuzzPartial(f *testing.F) {
	f.Add([]byte{0x0a, 4, 8, 2, 0x12, 0})
	f.Fuzz(func(t *testing.T, answer []byte) {
		d := &Collector{header: http.Header{"X-Key": {"hunter2"}}}
		if err := d.partial(answer); err != nil && (len(err.Error()) > 2000 || strings.Contains(err.Error(), "hunter2")) {
			t.Error(err)
		}
	})
}

// TestEncodeNoProfile: if the data is no pprof profile, Encode fails.
func TestEncodeNoProfile(t *testing.T) {
	if b, err := new(Collector).Encode(&push.Period{Pprof: []byte("x")}); err == nil {
		t.Errorf("%d bytes", len(b.Body))
	}
}
