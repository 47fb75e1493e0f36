package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddtop/ddtop/internal/cli/run"
)

// foreignFlags are flags of other programs that the documents mention.
var foreignFlags = map[string]bool{
	"--with-modular-gc": true,                                                                              // of Ruby's configure
	"--feature-gates":   true,                                                                              // of OpenTelemetry's collector
	"--cap-add":         true, "--user": true, "--nonblocking": true, "--security-opt": true, "--rm": true, // of docker
	"--image": true, "--target": true, "--profile": true, "--custom": true, "--manifest": true, // of kubectl and krew
	"--from": true, "--prefix": true, "--uninstall": true, // of install.sh
	"--purge": true, "--now": true, "--allow-untrusted": true, "--check": true, "--ignore-missing": true, // of dpkg, systemctl, apk and sha256sum
}

// TestDocsNameEveryFormat: for each format of `ddtop record`, docs/ describes what the file contains, and which data of
// the process a reader can see in it. export/hostile_test.go tests each format with hostile names.
func TestDocsNameEveryFormat(t *testing.T) {
	for file, cell := range map[string]string{"../../docs/reference/cli.md": "| `%s` |", "../../docs/reference/redaction.md": "%s", "../../export/hostile_test.go": `"%s":`} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range profileFormats() {
			if want := fmt.Sprintf(cell, f.name); !strings.Contains(string(text), want) {
				t.Errorf("%s does not have %q", file, want)
			}
		}
	}
}

// TestDocsNameEveryFlag: the README or docs/ mentions every flag of every command. Every flag that these documents
// mention exists.
func TestDocsNameEveryFlag(t *testing.T) {
	var files []string
	for _, folder := range []string{"", "tasks", "reference", "internals"} {
		found, err := filepath.Glob(filepath.Join("../../docs", folder, "*.md"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	named := make(map[string]string) // flags, and a file that has them
	flag := regexp.MustCompile(`--[a-z][a-z-]+`)
	for _, file := range append(files, "../../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "| ---") {
				continue
			}
			for _, f := range flag.FindAllString(line, -1) {
				named[f] = file
			}
		}
	}
	real := map[string]bool{"--help": true}
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			name := "--" + f.Name
			real[name] = true
			if f.Name != "help" && !f.Hidden && named[name] == "" {
				t.Errorf("%s of %q stands neither in README.md nor in docs/", name, c.CommandPath())
			}
		})
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRoot(run.Streams{}))
	if len(real) < 25 {
		t.Errorf("only %d flags found: the test looks at too little", len(real))
	}
	for name, file := range named {
		if !real[name] && !foreignFlags[name] {
			t.Errorf("%s in %s is not a flag of ddtop", name, file)
		}
	}
}
