package datadog

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/push"
)

// TestPlantedHeaders: another user has put a payload into the spool, with headers that Encode never makes. ddtop must
// not send these headers.
func TestPlantedHeaders(t *testing.T) {
	var got http.Header
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	defer s.Close()
	d, err := New(&url.URL{Scheme: "datadog", Host: strings.TrimPrefix(s.URL, "http://")}, "", "0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	p := &push.Payload{ContentType: "multipart/form-data; boundary=x", Body: []byte("x"), Header: map[string]string{
		"X-Evil": "evil", "Host": "evil", "DD-API-KEY": "evil", "Authorization": "evil", "DD-EVP-ORIGIN": "evil", containerHeader: "abab",
	}}
	if err := d.Send(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	for key, values := range got {
		if strings.Contains(strings.Join(values, " "), "evil") {
			t.Errorf("%s: %v is sent", key, values)
		}
	}
	if got.Get(containerHeader) != "abab" {
		t.Errorf("the container is not sent: %v", got)
	}
	p.ContentType = "text/html"
	var refused *push.RefusedError
	if err := d.Send(t.Context(), p); !errors.As(err, &refused) {
		t.Errorf("a payload of another type: %v", err)
	}
}
