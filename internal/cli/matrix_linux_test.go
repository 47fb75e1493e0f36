package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler/exact/probe"
	"github.com/ddtop/ddtop/sampler/live"
)

// matrixPage has the results of TestMatrix.
var matrixPage = filepath.Join("..", "..", "docs", "matrix.md")

// A way is one of ddtop's ways to follow a process, such as by thread switches. kernel names the feature of the kernel
// that the way needs.
type way struct {
	name, kernel string
	flags        []string
	// can returns an error that says why ddtop cannot follow processes in this way on this machine. The field is nil
	// for ways that every machine allows.
	can func() error
	// used reports whether a measurement was really made in this way.
	used func(*report.Stat) bool
}

func bySource(kind string) func(*report.Stat) bool {
	return func(s *report.Stat) bool { return s.Source != nil && s.Source.Kind == kind }
}

var ways = []way{
	{"polling", "`process_vm_readv`", []string{"--source", "polling"}, nil, bySource("polling")},
	{"switches", "BPF with BTF", []string{"--source", "switches"}, live.CheckSwitches, bySource("switches")},
	{"moved", "`perf_event_open`", []string{"--source", "moved"}, nil, bySource("moved")},
	{"exact", "BPF with BTF, uprobes", []string{"--exact", "--exact-cost", "off"}, func() error { return probe.Try(false) },
		func(s *report.Stat) bool { return s.Exact != nil && s.Exact.Turns > 0 }},
	{"pause", "`ptrace`", []string{"--source", "polling", "--pause"}, nil, func(s *report.Stat) bool { return s.Pauses.Count > 0 }},
}

// Results of following one kind of Ruby in one way, in the words of the page docs/matrix.md.
const (
	tested   = "tested"
	emulated = "emulated"
	untested = "untested"
)

// tryWays follows a program on a Ruby in each way, and returns the results. Two threads of the program compute, so each
// of them sometimes holds the GVL and sometimes waits for it. If the machine does not allow a way, its result is empty.
func tryWays(t *testing.T, r rubytest.Ruby) []string {
	p := r.Start(t, handsOn, rubytest.Options{RubyArgs: []string{"--disable=gems"}})
	p.Expect(t, "ready")
	results := make([]string, len(ways))
	for i, w := range ways {
		if r.Emulator != "" && w.name != "polling" {
			results[i] = untested // the kernel would report what the emulator does, not the emulated Ruby
			continue
		}
		if w.can != nil {
			if err := w.can(); err != nil {
				t.Logf("%s is not tried here: %v", w.name, err)
				continue
			}
		}
		var stat report.Stat
		seen := func(name string) bool {
			return slices.ContainsFunc(stat.Threads, func(th report.StatThread) bool {
				return th.Name != nil && *th.Name == name && th.NS.Running > 0 && th.NS.Waiting > 0
			})
		}
		got := runLonger(t, func(seconds string) []string {
			return append([]string{"stat", "-p", strconv.Itoa(p.PID), "-d", seconds + "s", "--json", "--overhead", "off"}, w.flags...)
		}, func(r result) bool {
			stat = report.Stat{}
			return json.Unmarshal([]byte(r.out), &stat) == nil && w.used(&stat) && seen("busy 0") && seen("busy 1")
		})
		switch {
		case got.code != 0 || !w.used(&stat):
			t.Errorf("%s: exit code %d, source %+v, it said %q", w.name, got.code, stat.Source, got.err)
		case !seen("busy 0") || !seen("busy 1"):
			rubytest.TooSeldom(t, "%s: no thread that has the GVL and waits for it in %+v", w.name, stat.Threads)
		case r.Emulator != "":
			results[i] = emulated
		default:
			results[i] = tested
		}
	}
	return results
}

// kindOfRuby returns the first cells of a Ruby's row in the table: its release, C library and machine.
func kindOfRuby(r rubytest.Ruby) string {
	libc, machine := "glibc", map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	if strings.HasSuffix(r.Name, "-musl") {
		libc = "musl"
	}
	if strings.HasSuffix(r.Name, "-arm64") {
		machine = "aarch64"
	}
	major, minor := r.Release()
	return fmt.Sprintf("| %d.%d | %s | %s |", major, minor, libc, machine)
}

// TestMatrix follows a program in each of ddtop's ways on each kind of Ruby, and compares the results with
// docs/matrix.md. With -update it writes this page.
func TestMatrix(t *testing.T) {
	rubytest.OftenEnough(t)
	rows := make(map[string][]string)
	if text, err := os.ReadFile(matrixPage); err == nil {
		for line := range strings.Lines(string(text)) {
			if cells := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | "); len(cells) == 3+len(ways) && (cells[2] == "x86_64" || cells[2] == "aarch64") {
				rows["| "+strings.Join(cells[:3], " | ")+" |"] = cells[3:]
			}
		}
	} else if !*update {
		t.Fatal(err)
	}
	try := func(t *testing.T, r rubytest.Ruby) {
		if r.Root == "" {
			return // the page only has Rubies that every machine can have
		}
		got, kind := tryWays(t, r), kindOfRuby(r)
		if *update {
			rows[kind] = got
			return
		}
		want := rows[kind]
		if want == nil {
			t.Fatalf("docs/matrix.md has no row %s: go test ./internal/cli -run TestMatrix -update", kind)
		}
		for i, w := range ways {
			// The test compares the results with the page only on amd64. An arm64 machine emulates no Ruby, so its
			// results can differ from the page.
			if got[i] != "" && got[i] != want[i] && runtime.GOARCH == "amd64" && !t.Failed() {
				t.Errorf("docs/matrix.md says %q of %s with %s, this run %q: go test ./internal/cli -run TestMatrix -update", want[i], w.name, kind, got[i])
			}
		}
	}
	t.Run("native", func(t *testing.T) { rubytest.Each(t, try) })
	t.Run("musl", func(t *testing.T) { rubytest.EachMusl(t, try) })
	t.Run("foreign", func(t *testing.T) { rubytest.EachForeign(t, try) })
	if *update && !t.Failed() {
		writeMatrix(t, rows)
	} else if n := len(rubytest.Kinds()); len(rows) != n && runtime.GOARCH == "amd64" {
		t.Errorf("docs/matrix.md has %d rows, for %d kinds of Ruby", len(rows), n)
	}
}

func writeMatrix(t *testing.T, rows map[string][]string) {
	t.Helper()
	var b strings.Builder
	b.WriteString("# What is tested\n\nAfter reading this page you know on which Rubies, C libraries and machines each way of reading is tested.\n\n" +
		"`go test ./internal/cli -run TestMatrix -update` writes this page on an x86_64 machine. The test follows a program on\n" +
		"each Ruby in each way. It fails if this page says something else. *Emulated* is under qemu-user, where the kernel\n" +
		"describes the emulator. *Untested* may well work. The Rubies are Debian's, and its source built with musl.\n\n| Ruby | C library | machine |")
	for _, w := range ways {
		b.WriteString(" " + w.name + " |")
	}
	b.WriteString("\n|" + strings.Repeat(" --- |", 3+len(ways)) + "\n")
	for _, r := range rubytest.Kinds() {
		kind := kindOfRuby(r)
		b.WriteString(kind)
		for i := range ways {
			cell := untested
			if row := rows[kind]; row != nil && row[i] != "" {
				cell = row[i]
			}
			b.WriteString(" " + cell + " |")
		}
		b.WriteString("\n")
	}
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&b, "\nWhat each way needs of the kernel, which was Linux %s:\n\n", strings.TrimSpace(string(release)))
	for _, w := range ways {
		fmt.Fprintf(&b, "* %s: %s (`%s`)\n", w.name, w.kernel, strings.Join(w.flags, " "))
	}
	if err := os.WriteFile(matrixPage, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
