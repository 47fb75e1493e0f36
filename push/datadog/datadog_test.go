package datadog

import (
	"bytes"
	"errors"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/ddtop/ddtop/push"
)

func TestURLs(t *testing.T) {
	for text, want := range map[string]string{
		"datadog://127.0.0.1:8126": "http://127.0.0.1:8126/profiling/v1/input", "datadog://agent": "http://agent:8126/profiling/v1/input",
		"datadog://[::1]": "http://[::1]:8126/profiling/v1/input", "unix:///var/run/datadog/apm.socket": "http://unix/profiling/v1/input",
		"datadog+https://intake.profile.datadoghq.eu": "https://intake.profile.datadoghq.eu/api/v2/profile",
		"datadog+https://datadoghq.eu":                "https://intake.profile.datadoghq.eu/api/v2/profile", "datadog+https://US5.datadoghq.com": "https://intake.profile.us5.datadoghq.com/api/v2/profile",
		"datadog+https://proxy.example:8443": "https://proxy.example:8443/api/v2/profile",
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		d, err := New(u, "a key", "1")
		if err != nil || d.to != want || strings.Contains(d.String(), "key") {
			t.Errorf("%s: %+v, %v", text, d, err)
		}
		if d != nil && (d.key != "") != (u.Scheme == "datadog+https") {
			t.Errorf("%s has the key %q", text, d.key)
		}
	}
	for _, text := range []string{"datadog://", "datadog://:8126", "datadog://me:key@agent", "datadog://agent/x", "datadog://agent?key=x", "unix://host/x", "unix:x", "datadog+https://", "datadog+https://h/x"} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := New(u, "key", "1"); err == nil {
			t.Errorf("%s: %+v", text, d)
		}
	}
	if _, err := New(&url.URL{Scheme: "datadog+https", Host: "h"}, "", "1"); !errors.Is(err, errNoKey) {
		t.Errorf("without a key: %v", err)
	}
}

func TestProvenance(t *testing.T) {
	p := new(profile.Profile)
	add := func(mapping, file string) {
		p.Location = append(p.Location, &profile.Location{Mapping: &profile.Mapping{File: mapping}, Line: []profile.Line{{Function: &profile.Function{Filename: file}}}})
	}
	add("puma", "/app/models/order.rb")
	add("gem rack 2.2.7", "/usr/share/rubygems-integration/all/gems/rack-2.2.7/lib/rack/builder.rb")
	add("gem rack 2.2.7", "/usr/share/rubygems-integration/all/gems/rack-2.2.7/lib/rack.rb")
	add("gem rack 2.2.7", "/elsewhere/rack.rb")
	add("ruby stdlib", "/usr/lib/ruby/3.1.0/json/common.rb")
	add("ruby stdlib", "/usr/lib/ruby/vendor_ruby/x.rb")
	add("ruby core", "<internal:kernel>")
	p.Location = append(p.Location, &profile.Location{})
	want := provenance{[]library{
		{"library", "rack", "2.2.7", []string{"/usr/share/rubygems-integration/all/gems/rack-2.2.7"}},
		{"standard library", "stdlib", "3.1.2", []string{"/usr/lib/ruby/3.1.0"}},
	}}
	if got := provenanceOf(p, "3.1.2"); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}

// TestKeyStaysOutOfThePayload: the payload does not contain Datadog's API key. This is necessary because the spool
// stores payloads on disk.
func TestKeyStaysOutOfThePayload(t *testing.T) {
	d, err := New(&url.URL{Scheme: "datadog+https", Host: "h"}, "the-api-key", "1")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := (&profile.Profile{SampleType: []*profile.ValueType{{Type: "gvl-wait", Unit: "nanoseconds"}}}).Write(&b); err != nil {
		t.Fatal(err)
	}
	payload, err := d.Encode(&push.Period{Pprof: b.Bytes()})
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(payload.Body, []byte(d.key)) || len(payload.Header) != 0 {
		t.Errorf("%+v", payload)
	}
	if _, err := d.Encode(&push.Period{Pprof: []byte("no profile")}); err == nil {
		t.Error("what is no profile was encoded")
	}
}
