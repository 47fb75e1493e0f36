package golden

import (
	"os"
	"testing"
)

// recorder is a testing.TB that only records whether the test failed.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.failed = true }
func (r *recorder) Fatal(...any)          { r.failed = true }
func (r *recorder) Fatalf(string, ...any) { r.failed = true }

func TestCheck(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("testdata", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("testdata/a", []byte("right"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		file, got string
		fails     bool
	}{{"a", "right", false}, {"a", "right\n", true}, {"absent", "", true}} {
		r := &recorder{TB: t}
		Check(r, c.file, []byte(c.got))
		if r.failed != c.fails {
			t.Errorf("%s with %q: failed is %v", c.file, c.got, r.failed)
		}
	}
}
