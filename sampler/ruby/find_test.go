package ruby

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/places"
	"github.com/ddtop/ddtop/sampler/ruby/internal/rubyvm"
)

// parkedTarget starts a program with some waiting threads, and opens it.
func parkedTarget(t *testing.T, r rubytest.Ruby) *realTarget {
	t.Helper()
	p := r.Start(t, "3.times { |i| Thread.new { [1].each { sleep } } }; STDOUT.puts :ready; STDOUT.flush; STDIN.gets", rubytest.Options{})
	p.Expect(t, "ready")
	return openTarget(t, p.PID)
}

// stopped returns a context that has already ended. A search with this context makes only one attempt.
func stopped() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// TestFindUnknownPatch: if a Ruby's patch release is newer than all that ddtop knows, ddtop must verify and use the
// nearest table of offsets. The result must say which table this is.
func TestFindUnknownPatch(t *testing.T) {
	rubytest.Each(t, func(t *testing.T, r rubytest.Ruby) {
		g := parkedTarget(t, r)
		exact, err := Find(stopped(), g.proc, g.mod, g.vm.Version, FindOptions{PID: g.proc.PID()})
		if err != nil {
			t.Fatal(err)
		}
		if exact.VM.Addr != g.vm.Addr {
			t.Errorf("found the VM at %s, want %s", exact.VM.Addr, g.vm.Addr)
		}
		if release := g.vm.Release; release.Major < 4 && exact.Note != "" {
			t.Errorf("the note on a known release: %q", exact.Note)
		}
		version := strings.Join(strings.Split(g.vm.Version, ".")[:2], ".") + ".99"
		nearest, _, err := layout.For(version, g.mod.Machine, g.mod.JmpBuf())
		if err != nil {
			t.Fatal(err)
		}
		_, _, noDebug := rubyvm.DeriveTable(t.Context(), g.mod, version, FindOptions{})
		found, err := Find(context.Background(), g.proc, g.mod, version, FindOptions{PID: g.proc.PID()})
		if err != nil {
			// From 4.0.5 to 4.0.6, Ruby moved fields.
			if noDebug == nil || !layout.Conflict(nearest, g.vm.Table) {
				t.Error(err)
			}
			for _, word := range []string{version, strings.Fields(nearest.Name)[0], "does not fit", "debug information"} {
				if !errors.Is(err, ErrLayout) || !strings.Contains(err.Error(), word) {
					t.Errorf("%q does not say %q", err, word)
				}
			}
			return
		}
		if !strings.Contains(found.Note, version+" is not known") || !strings.Contains(found.Note, "verified") {
			t.Errorf("the note: %q", found.Note)
		}
		if got, want := picture(t, found.VM, g), picture(t, g.vm, g); got != want {
			t.Errorf("by %q read\n%s\nwant\n%s", found.VM.Table.Name, got, want)
		}
	})
}

// TestVerifyRefuses: ddtop uses the table of another series of releases. The verification must fail, unless this table
// leads to the same threads and frames as the Ruby's own table.
func TestVerifyRefuses(t *testing.T) {
	releases, err := layout.Releases()
	if err != nil {
		t.Fatal(err)
	}
	rubytest.Each(t, func(t *testing.T, r rubytest.Ruby) {
		g := parkedTarget(t, r)
		if err := g.vm.Verify(g.mod, func() error { return verifyThreads(g.vm, g.mod, g.proc.PID()) }); err != nil {
			t.Errorf("its own table: %v", err)
		}
		tried, passed := 0, make(map[string]bool)
		for _, other := range releases {
			release, err := places.ParseRelease(other.Version)
			if err != nil {
				t.Fatal(err)
			}
			if release.Major == g.vm.Release.Major && release.Minor == g.vm.Release.Minor || other.Machine != g.mod.Machine {
				continue
			}
			table, _, err := layout.For(other.Version, other.Machine, g.mod.JmpBuf())
			if err != nil {
				t.Fatal(err)
			}
			tried++
			// The test uses the rules of two releases: first the rules of the Ruby under test, as for a patched build,
			// and then the rules of the table's release.
			for _, version := range []string{g.vm.Version, other.Version} {
				vm, err := rubyvm.TryLayout(stopped(), g.proc, g.mod, version, table, true, FindOptions{PID: g.proc.PID(), Still: true}, proven(g))
				if err != nil {
					continue
				}
				passed[other.Version] = true
				if got, want := picture(t, vm, g), picture(t, g.vm, g); got != want {
					t.Errorf("the table of %s passes for %s as %s and reads\n%s\ninstead of\n%s", other.Version, g.vm.Version, version, got, want)
				}
			}
		}
		if tried < 20 {
			t.Errorf("%d tables tried", tried)
		}
		t.Logf("%d tables tried; %v read the same", tried, slices.Sorted(maps.Keys(passed)))
	})
}

// proven reads all threads as Find does.
func proven(g *realTarget) func(vm *VM) error {
	return func(vm *VM) error { return verifyThreads(vm, g.mod, g.proc.PID()) }
}

// picture returns a text with all threads and frames that ddtop finds with a VM's layout.
func picture(t *testing.T, vm *VM, g *realTarget) string {
	t.Helper()
	dict := sampler.NewDictionary()
	r, err := NewReader(vm, g.mod, g.proc.PID(), dict, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var s sampler.Sample
	if err := r.Read(sampler.StackTick, &s); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, th := range s.Threads {
		info, _ := dict.Thread(th.ID)
		fmt.Fprintf(&b, "%q %d %s", info.Name, th.TID, th.Status)
		for _, id := range dict.Frames(th.Stack, nil) {
			f := dict.Frame(id)
			fmt.Fprintf(&b, " %s:%d:%s", f.Path, f.Line, f.Label)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// TestFindUnknownRelease: if ddtop has neither a table nor debug information for a Ruby, the error must say what would
// help.
func TestFindUnknownRelease(t *testing.T) {
	var g *realTarget
	for _, r := range rubytest.All(t) {
		if g = parkedTarget(t, r); !g.mod.HasDWARF() {
			break
		}
	}
	if g == nil || g.mod.HasDWARF() {
		rubytest.Skip(t, "all Rubies have debug information")
	}
	_, err := Find(t.Context(), g.proc, g.mod, "9.9.0", FindOptions{PID: g.proc.PID()})
	if !errors.Is(err, layout.ErrUnknownRelease) {
		t.Fatalf("got %v", err)
	}
	for _, word := range []string{"9.9.0", "a newer ddtop", "debug information", "dbgsym"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not say %q", err, word)
		}
	}
}

// TestFindByDebugInformation: for every Ruby that was built with -g, ddtop must derive the layout from debug
// information, and verify it on the live process. With this layout it must read the same frames as with its own table
// for the release. The second time, the layout must come from the cache.
func TestFindByDebugInformation(t *testing.T) {
	rubytest.Each(t, func(t *testing.T, r rubytest.Ruby) {
		p, truth := r.StartParked(t, rubytest.Options{})
		g := openTarget(t, p.PID)
		if _, err := g.mod.DebugFile(); err != nil {
			rubytest.Skip(t, "it was built without debug information")
		}
		units := 0
		o := FindOptions{PID: p.PID, Cache: t.TempDir(), Progress: func(_ string, done, total int) { units = done }}
		derived, source, err := rubyvm.DeriveTable(t.Context(), g.mod, g.vm.Version, o)
		if errors.Is(err, layout.ErrIncomplete) {
			// The test is skipped because this Ruby has no debug information of its C code. A test of package layout
			// checks that this is the only reason for the error.
			rubytest.Skip(t, "its C part was built without debug information")
		}
		if err != nil {
			t.Fatal(err)
		}
		if units == 0 || source == "" {
			t.Errorf("%d units read, source %q", units, source)
		}
		vm, err := rubyvm.TryLayout(stopped(), g.proc, g.mod, g.vm.Version, derived, true, o, proven(g))
		if err != nil {
			t.Fatal(err)
		}
		g.vm, g.dec = vm, vm.NewDecoder(g.dict)
		compareThreads(t, g, truth, true)

		if g.mod.BuildID == "" {
			t.Log("it was linked without a build id: nothing is cached")
			return
		}
		again, source, err := rubyvm.DeriveTable(t.Context(), g.mod, g.vm.Version, o)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(source, o.Cache) {
			t.Errorf("the second time it comes from %s", source)
		}
		if d := layout.Differences(derived, again); len(d) > 0 {
			t.Errorf("the cached table differs: %v", d)
		}
		// If a file in the cache is damaged, ddtop must replace it. If it belongs to another release, ddtop must not
		// use it.
		if err := os.WriteFile(source, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, from, err := rubyvm.DeriveTable(t.Context(), g.mod, g.vm.Version, o); err != nil || from == source {
			t.Errorf("from a damaged cache: %s, %v", from, err)
		}
		if _, from, err := rubyvm.DeriveTable(t.Context(), g.mod, "3.2.99", o); err != nil || from == source {
			t.Errorf("for another release: %s, %v", from, err)
		}
	})
}
