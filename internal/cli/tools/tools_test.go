package tools

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestFitted: if the JSON of a result is too long, fitted shortens it, and it stays valid JSON. Its lists keep their
// first elements, and the text says that they are shortened.
func TestFitted(t *testing.T) {
	list := make([]map[string]any, 2000)
	for i := range list {
		list[i] = map[string]any{"endpoint": fmt.Sprintf("GET /route/%d", i), "ended": i}
	}
	for name, v := range map[string]any{"findings": list, "requests": map[string]any{"kept": 7, "note": strings.Repeat("x", 9000), "endpoints": list}} {
		long, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		text, err := fitted(name, long)
		var got map[string]any
		if err != nil || len(text) > maxResult || len(text) < maxResult/3 || json.Unmarshal([]byte(text), &got) != nil || got["cut"] == nil {
			t.Errorf("%s: %d bytes, %v: %.100s", name, len(text), err, text)
		}
		if !strings.Contains(text, `"GET /route/0"`) || name == "requests" && got[name].(map[string]any)["kept"] != 7.0 {
			t.Errorf("%s: %.300s", name, text)
		}
	}
	if text, err := fitted("findings", json.RawMessage(" [ {\"a\": 9007199254740993} ]\n")); err != nil || text != `[{"a":9007199254740993}]` {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := fitted("x", json.RawMessage(`"`+strings.Repeat("x", maxResult)+`"`)); err == nil {
		t.Errorf("%.100s", text)
	}
}
