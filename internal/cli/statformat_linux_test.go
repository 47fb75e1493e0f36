package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// TestStatAndReportAsMarkdown: stat of one process and of two, and report of a recording, write a summary in Markdown
// with the finding, under 200 lines. Formats that contradict each other are refused.
func TestStatAndReportAsMarkdown(t *testing.T) {
	t.Parallel()
	var pids []string
	for range 2 {
		ruby := rubytest.One(t).Start(t, deadlockedRuby, rubytest.Options{})
		ruby.Expect(t, "up")
		pids = append(pids, strconv.Itoa(ruby.PID))
	}
	file := filepath.Join(t.TempDir(), "x.ddtop")
	for _, args := range [][]string{
		{"stat", "-p", pids[0], "-d", "3s", "--format", "md"}, {"stat", "-p", strings.Join(pids, ","), "-d", "3s", "--format", "md"},
		{"record", "-p", pids[0], "-d", "3s", "-o", file}, {"report", file, "--format", "md"}, {"report", file, "-o", file + ".md"},
	} {
		out, err := exec.Command(ddtop, args...).Output()
		if err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		if args[0] == "record" {
			continue
		}
		if args[2] == "-o" {
			if out, err = os.ReadFile(file + ".md"); err != nil {
				t.Fatal(err)
			}
		}
		text := string(out)
		if !strings.Contains(text, "* **Deadlock**: ") || !strings.Contains(text, "| thread |") || strings.Count(text, "\n") >= 200 {
			t.Errorf("%q: %s", args, text)
		}
		if several := strings.Contains(text, "* crit: Deadlock in 2 of 2 processes, as in pid "); several != strings.Contains(strings.Join(args, " "), ",") {
			t.Errorf("%q: %s", args, text)
		}
	}
	for _, args := range [][]string{{"--format", "md", "--json"}, {"--format", "md", "--interval", "1s"}, {"--format", "pdf"}} {
		if r := run(t, append([]string{"stat", "-p", pids[0]}, args...)...); r.code != 2 {
			t.Errorf("%q: code %d, %s", args, r.code, r.err)
		}
	}
}
