package native

import (
	"strings"
	"testing"
)

// TestReadable: symbols of C++ and Rust become readable names. All other symbols stay unchanged, even hostile ones.
func TestReadable(t *testing.T) {
	for symbol, want := range map[string]string{
		"PQgetResult":                       "PQgetResult",
		"__lll_lock_wait_private":           "__lll_lock_wait_private",
		"_ZN4grpc10Completion4waitEi":       "grpc::Completion::wait",
		"_ZNSt6vectorIiSaIiEE9push_backEOi": "std::vector::push_back",
		"_RNvNtCs1234_7mycrate3foo3bar":     "mycrate::foo::bar",
		"_Z":                                "_Z",
		"_ZN":                               "_ZN",
		"":                                  "",
	} {
		if got := readable(symbol); got != want {
			t.Errorf("%q: %q, not %q", symbol, got, want)
		}
	}
	// Each step of this symbol doubles a list, so its readable name would have 2^100 bytes.
	bomb := "_Z1fI" + strings.Repeat("1AI", 20)
	for i := range 100 {
		bomb += "S" + strings.Repeat("_", i%3) + "_S_"
	}
	for _, symbol := range []string{bomb, "_Z" + strings.Repeat("P", 1000) + "i", "_Z" + strings.Repeat("N1a", 300), "_R" + strings.Repeat("INvC1a1b", 120),
		"_Z1f" + strings.Repeat("F", 1000), strings.Repeat("_Z", 4096)} {
		if got := readable(symbol); len(got) > max(len(symbol), 1<<maxReadable) {
			t.Errorf("%d bytes of %d", len(got), len(symbol))
		}
	}
}
