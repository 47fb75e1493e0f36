package snapshot

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/ddtop/ddtop/export"
	weights "github.com/ddtop/ddtop/export/profile"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/internal/exporttest"
)

func fullSnapshot() Snapshot {
	s := exporttest.NewShop()
	m := weights.Measured{Process: s.Proc, Dict: s.Dict, Weights: s.Weights}
	return Snapshot{
		Program: "order-service", PID: 4242, At: time.Date(2026, 11, 20, 14, 3, 22, 0, time.UTC), Profile: &m, Dump: export.NewDump(s.Proc, s.Dict, s.Sample, s.States),
		Tree: flamegraph.NewBuilder(s.Dict).Build(s.Weights, flamegraph.Options{}), Screen: demoScreen(), Summary: "# what is wrong\n",
	}
}

func openRoot(t *testing.T, path string) *os.Root {
	t.Helper()
	folder, err := os.OpenRoot(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { folder.Close() })
	return folder
}

func TestSnapshot(t *testing.T) {
	parent := t.TempDir()
	folder := openRoot(t, parent)
	name, err := WriteSnapshot(folder, fullSnapshot())
	if err != nil {
		t.Fatal(err)
	}
	if want := "order-service-4242-20261120-140322"; name != want {
		t.Errorf("name %s, want %s", name, want)
	}
	path := filepath.Join(parent, name)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder: %v %v", info.Mode(), err)
	}
	files, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Name())
		info, err := f.Info()
		if err != nil || info.Mode().Perm() != 0o600 || info.Size() == 0 {
			t.Errorf("%s: %v, %d bytes, %v", f.Name(), info.Mode(), info.Size(), err)
		}
	}
	if got := strings.Join(names, " "); got != "flamegraph.svg profile.pb.gz screen.svg screen.txt summary.md threads.txt" {
		t.Errorf("files %s", got)
	}
	b, err := os.ReadFile(filepath.Join(path, profileFile))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := profile.ParseData(b); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(filepath.Join(path, flamegraphFile)); err != nil || !strings.Contains(string(b), "&#10;waiting ") {
		t.Errorf("the flamegraph does not name states (%v)", err)
	}
	if again, err := WriteSnapshot(folder, fullSnapshot()); err != nil || again != name+"-2" {
		t.Errorf("a second one: %s %v", again, err)
	}
	left, err := filepath.Glob(filepath.Join(parent, ".*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestSnapshotErrors(t *testing.T) {
	parent := t.TempDir()
	folder := openRoot(t, parent)
	s := fullSnapshot()
	for n := range maxSnapshotNames + 1 {
		_, err := WriteSnapshot(folder, Snapshot{Program: s.Program, PID: s.PID, At: s.At, Screen: screenOf(1, 1, "x")})
		if (err != nil) != (n >= maxSnapshotNames) {
			t.Fatalf("number %d: %v", n, err)
		}
	}
	left, err := filepath.Glob(filepath.Join(parent, ".*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestSnapshotFolderName(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for program, want := range map[string]string{
		"puma": "puma-7-20260102-030405", "../../etc/x": "x-7-20260102-030405", "": "ruby-7-20260102-030405", "..": "ruby-7-20260102-030405",
		"a b\x1b/c\nd": "c_d-7-20260102-030405", "-rf": "rf-7-20260102-030405", ".hidden": "hidden-7-20260102-030405",
		strings.Repeat("x", 300): strings.Repeat("x", 64) + "-7-20260102-030405",
	} {
		s := Snapshot{Program: program, PID: 7, At: at}
		if got := s.folder(); got != want {
			t.Errorf("%q: %s, want %s", program, got, want)
		}
	}
}
