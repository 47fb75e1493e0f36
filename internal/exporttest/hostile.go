package exporttest

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/sampler"
)

// HostileName is a name with which a method, file, thread, gem or program could attack a terminal or an HTML page. It
// has escape sequences in 7 and 8 bits, a change of the writing direction, separators and line breaks.
const HostileName = "\x1b]0;title\a\x1b[2J\u009b31m\u202egnp.exe\u2066\u200b\u2028\r\n;x\t\x7f</script>\U000e0041"

// HostileServing returns a request that a thread serves. Each text of the request is a HostileName.
func HostileServing(d *sampler.Dictionary) sampler.Serving {
	w := sampler.Work{Number: 1, Kind: sampler.WorkRequest, Endpoint: HostileName, SinceNS: 1e9, BeforeNS: 1, QueuedNS: 1 << 62, Values: HostileName}
	return sampler.Serving{Work: d.InternWork(w), Statement: d.InternText(HostileName), Exception: d.InternText(HostileName + ": " + HostileName),
		Span: 1<<64 - 1, RootSpan: 1}
}

// CheckPrintable fails the test if s has characters that the function Printable would replace. It allows line breaks.
func CheckPrintable(t testing.TB, name, s string) {
	t.Helper()
	if i := strings.IndexFunc(s, func(r rune) bool { return r != '\n' && flamegraph.Unprintable(r) }); i >= 0 {
		t.Errorf("%s: %q", name, s[i:min(i+40, len(s))])
	}
}

// EachString calls f with each string in a value that was decoded from JSON.
func EachString(v any, f func(string)) {
	switch v := v.(type) {
	case string:
		f(v)
	case []any:
		for _, x := range v {
			EachString(x, f)
		}
	case map[string]any:
		for k, x := range v {
			f(k)
			EachString(x, f)
		}
	}
}

// PageData returns the data that the script of an HTML page reads. The page is about one process.
func PageData(t testing.TB, page []byte) map[string]any {
	t.Helper()
	return pageData[map[string]any](t, page)
}

// PageList returns the data that the script of an HTML page reads. The page is about several processes.
func PageList(t testing.TB, page []byte) []map[string]any {
	t.Helper()
	return pageData[[]map[string]any](t, page)
}

func pageData[T any](t testing.TB, page []byte) T {
	t.Helper()
	m := regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`).FindSubmatch(page)
	if m == nil {
		t.Fatal("the page has no data")
	}
	var v T
	if err := json.Unmarshal(m[1], &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// CheckHarmless checks that an HTML page has only the markup that ddtop wrote. A hostile name could try to end the
// page's data and add markup.
func CheckHarmless(t testing.TB, page []byte) {
	t.Helper()
	from, to := bytes.Index(page, []byte(`id="data">`)), bytes.Index(page, []byte("</script>\n<script>"))
	if from < 0 || to < from {
		t.Fatal("the page has no data")
	}
	data := page[from+len(`id="data">`) : to]
	if i := bytes.IndexAny(data, "<>&"); i >= 0 {
		t.Errorf("data with markup: %q", data[max(i-20, 0):min(i+40, len(data))])
	}
	CheckPrintable(t, "page", string(data))
	head := page[bytes.Index(page, []byte("<title>"))+len("<title>"):]
	head = head[:bytes.Index(head, []byte("</title>"))]
	if bytes.ContainsAny(head, "<>\n") {
		t.Errorf("title %q", head)
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Error(err)
	}
	EachString(v, func(s string) { CheckPrintable(t, "data, decoded", s) })
}
