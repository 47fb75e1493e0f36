package pyroscope

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/push"
)

func TestURLs(t *testing.T) {
	for _, c := range []struct{ url, name, to, user, tenant string }{
		{"pyroscope+http://127.0.0.1:4040", "pyroscope+http://127.0.0.1:4040", "http://127.0.0.1:4040/push.v1.PusherService/Push", "env", "t0"},
		{"pyroscope+http://box", "pyroscope+http://box:4040", "http://box:4040/push.v1.PusherService/Push", "env", "t0"},
		{"pyroscope+https://me:secret@profiles.example/pyro/?tenant=shop", "pyroscope+https://profiles.example/pyro?tenant=shop", "https://profiles.example/pyro/push.v1.PusherService/Push", "me", "shop"},
		{"pyroscope+http://[::1]", "pyroscope+http://[::1]:4040", "http://[::1]:4040/push.v1.PusherService/Push", "env", "t0"},
	} {
		u, err := url.Parse(c.url)
		if err != nil {
			t.Fatal(err)
		}
		d, err := New(u, Access{User: "env", Password: "p", Tenant: "t0"}, "0.1")
		if err != nil || d.String() != c.name || d.to != c.to || d.access.User != c.user || d.access.Tenant != c.tenant {
			t.Errorf("%s: %+v, %v", c.url, d, err)
		}
	}
	for _, text := range []string{"pyroscope://x", "pyroscope+http://", "pyroscope+http://x?a=b", "pyroscope+http://x#f", "pyroscope+ftp://x", "pyroscope+http://x?tenant=a%0ab"} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := New(u, Access{}, "0.1"); err == nil {
			t.Errorf("%s: %+v", text, d)
		}
	}
}

// TestLabels: the keys of tags can be any text, but the labels made from them always have names that Pyroscope accepts.
// There are at most maxLabels labels.
func TestLabels(t *testing.T) {
	p := &push.Period{Process: push.Process{PID: 17, Title: "puma"}, From: time.Unix(1, 0), Tags: push.Tags{
		{Key: "service", Value: "shop"}, {Key: "runtime-id", Value: "r"}, {Key: "git.commit.sha", Value: "abc"}, {Key: "__name__", Value: "evil"}, {Key: "7up", Value: "x"}, {Key: "a.b", Value: "1"}, {Key: "a_b", Value: "2"},
	}}
	for n := range 100 {
		p.Tags = p.Tags.With("t"+strings.Repeat("x", n), "v")
	}
	labels := labelsOf(p)
	if len(labels) != maxLabels {
		t.Errorf("%d labels", len(labels))
	}
	for key, want := range map[string]string{"__name__": "ruby", "service_name": "shop", "git_commit_sha": "abc", "name__": "evil", "tag_7up": "x", "a_b": "1", "service": "", "runtime_id": ""} {
		if got := labels.Get(key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	for i, l := range labels {
		if i > 0 && labels[i-1].Key >= l.Key {
			t.Errorf("%q follows %q", l.Key, labels[i-1].Key)
		}
	}
}
