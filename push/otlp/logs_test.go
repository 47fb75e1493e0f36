package otlp

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/ddtop/ddtop/push"
)

// TestLogWithCutAnswer: a server answers with the status of a success, but the rest of the answer is cut off. If the
// request was a log record, ddtop does not send it again. If it was a profile, ddtop sends it again, because the
// missing part may say that the server refused it.
func TestLogWithCutAnswer(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		_, _ = w.Write([]byte("x")) // an error is allowed: the client may have closed the connection
	}))
	defer s.Close()
	d, err := New(&url.URL{Scheme: "otlp+http", Host: s.Listener.Addr().String()}, "", "0.1")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Alerts().Send(t.Context(), &push.Payload{}); err != nil {
		t.Errorf("a log record: %v", err)
	}
	if err := d.Send(t.Context(), &push.Payload{}); err == nil {
		t.Error("a profile was taken")
	}
}
