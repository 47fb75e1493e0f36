package recording

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

var update = flag.Bool("update", false, "write the present version's file in testdata anew")

// TestGolden reads files that earlier builds wrote: a change of the format needs a new version.
func TestGolden(t *testing.T) {
	for version := oldestVersion; version <= Version; version++ {
		path := fmt.Sprintf("testdata/version%d.ddtop", version)
		g := newGeneratorOf(31, version)
		end := &sampler.End{AtNS: 9, Reason: "exited"}
		file, want := record(t, 40, g.wild, g.d, end)
		if version < microsVersion { // their times are exact
			old := newGeneratorOf(31, version)
			hashes := newHashes(old.d)
			for i := range want {
				want[i] = resolve(old.wild(), hashes)
			}
		}
		if *update && version == Version {
			if err := os.MkdirAll("testdata", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, file, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		r, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		compare(t, path, readAll(t, r), want)
		if got, ok := r.End(); !ok || got != *end || r.Damage() != nil {
			t.Errorf("end %+v, damage %v", got, r.Damage())
		}
	}
}
