package push

import (
	"strings"
	"testing"
)

func TestTags(t *testing.T) {
	f := Facts{
		Process: Process{PID: 4242, Title: "puma", RubyVersion: "3.4.1"}, StartTicks: 99, Host: "web-1", Platform: "x86_64-linux", Version: "0.1.0",
		Given: Tags{{"env", "staging"}, {"team", "checkout"}},
		Environment: map[string]string{
			"DD_SERVICE": "shop", "DD_ENV": "production", "DD_TAGS": "team:other,region:eu,git.commit.sha:0123456789abcdef0123456789abcdef01234567",
			"DD_GIT_REPOSITORY_URL": "https://me:secret@example.org/shop.git", "OTEL_SERVICE_NAME": "not-this",
			"OTEL_RESOURCE_ATTRIBUTES": "service.version=1.2%2C3,k8s.pod.name=shop-0,db.password=hunter2",
			"DD_API_KEY":               "0123456789abcdef0123456789abcdef",
		},
		Published: Tags{{"version", "9"}, {"runtime-id", "11111111-2222-3333-4444-555555555555"}, {"region", "us"}},
		Cgroup:    "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod01234567_89ab_cdef_0123_456789abcdef.slice/cri-containerd-" + strings.Repeat("ab", 32) + ".scope\n",
	}
	want := map[string]string{
		"service": "shop", "env": "staging", "team": "checkout", "region": "eu", "version": "1.2_3", "pod_name": "shop-0", "host": "web-1",
		"git.commit.sha": "0123456789abcdef0123456789abcdef01234567", "git.repository_url": "https://example.org/shop.git",
		"runtime": "ruby", "language": "ruby", "runtime_engine": "ruby", "runtime_version": "3.4.1", "runtime_platform": "x86_64-linux",
		"runtime-id": "11111111-2222-3333-4444-555555555555", "process_id": "4242", "profiler_version": "0.1.0",
		"container_id": strings.Repeat("ab", 32), "pod_uid": "01234567-89ab-cdef-0123-456789abcdef",
	}
	got := f.Tags()
	for key, value := range want {
		if got.Get(key) != value {
			t.Errorf("%s is %q, want %q", key, got.Get(key), value)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d tags, want %d: %v", len(got), len(want), got)
	}
	for _, tag := range got {
		if strings.Contains(tag.Value, "hunter2") || strings.Contains(tag.Value, "secret") {
			t.Errorf("%v", tag)
		}
	}
	for url, want := range map[string]string{
		"https://me:" + strings.Repeat("geheim", 50) + "@example.org/shop.git": "https://example.org/shop.git", "https://me:p@ss@example.org/a@b": "https://example.org/a@b",
	} {
		f := Facts{Environment: map[string]string{"DD_GIT_REPOSITORY_URL": url}}
		if got := f.Tags().Get("git.repository_url"); got != want {
			t.Errorf("%s became %q, want %q", url, got, want)
		}
	}
	bare := (&Facts{Process: Process{PID: 1, Title: "app.rb"}, Host: "h", StartTicks: 5}).Tags()
	if bare.Get("service") != "app.rb" || len(bare.Get("runtime-id")) != 36 || bare.Get("container_id") != "" {
		t.Errorf("with nothing said: %v", bare)
	}
}

func TestHostileTags(t *testing.T) {
	f := Facts{Process: Process{Title: "a,env:evil\n\x1b[31m"}, Environment: map[string]string{
		"DD_ENV": strings.Repeat("é", 500), "DD_SERVICE": "shop\u009b31m\u202e\u2028x",
		"DD_TAGS": ":x,a:,\xff:1,no colon,k\nk:v", "OTEL_RESOURCE_ATTRIBUTES": "=,a=%zz,,b"}}
	for _, tag := range f.Tags() {
		if again, err := ParseTag(tag.Key + ":" + tag.Value); err != nil || again != tag {
			t.Errorf("%q: %v", tag, err)
		}
	}
	if got := f.Tags().Get("service"); got != "shop_31m__x" {
		t.Errorf("the service is %q", got)
	}
}

func TestLooksSecret(t *testing.T) {
	for _, tag := range []Tag{
		{"x", "ghp_0123456789abcdefghijABCDEFGHIJ012345"}, {"x", "AKIAIOSFODNN7EXAMPLE"}, {"x", "0123456789abcdef0123456789abcdef"},
		{"x", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.sig"}, {"x", "postgres://app:hunter2@db/shop"}, {"db_password", "x"}, {"DB_PWD", "x"}, {"API-KEY", "x"},
		{"x", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}, {"x", "sk_live_abc"}, {"session_token", "1"}, {"x", "-----BEGIN RSA PRIVATE KEY-----"},
	} {
		if !LooksSecret(tag) {
			t.Errorf("%v is taken for none", tag)
		}
	}
	for _, tag := range []Tag{
		{"service", "checkout-service-production-eu-west-1"}, {"git.commit.sha", "0123456789abcdef0123456789abcdef01234567"},
		{"version", "2026.11.23-build4711"}, {"git.repository_url", "https://github.com/ddtop/ddtop"}, {"host", "ip-10-0-0-1.eu-west-1.compute.internal"},
		{"pod_name", "shop-web-7c9d8b6f5-x2x9k"}, {"container_id", strings.Repeat("ab", 32)}, {"runtime-id", "11111111-2222-3333-4444-555555555555"},
		{"env", "production"}, {"title", "SolidQueue::Dispatcher::ConcurrencyMaintenance"},
	} {
		if LooksSecret(tag) {
			t.Errorf("%v is taken for one", tag)
		}
	}
}
