package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/ddtop/ddtop/internal/cli"
)

// docs generates the man pages, and the completions of bash, zsh and fish, from ddtop's commands. It writes them into
// the folders man and completions below the given folder. The date on the pages is from the environment variable
// SOURCE_DATE_EPOCH.
func docs(args []string) error {
	man, completions := filepath.Join(args[0], "man"), filepath.Join(args[0], "completions")
	for _, dir := range []string{man, completions} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	root := cli.Command()
	for name, generate := range map[string]func(*bytes.Buffer) error{
		"ddtop.bash": func(b *bytes.Buffer) error { return root.GenBashCompletionV2(b, true) },
		"_ddtop":     func(b *bytes.Buffer) error { return root.GenZshCompletion(b) },
		"ddtop.fish": func(b *bytes.Buffer) error { return root.GenFishCompletion(b, true) },
	} {
		var b bytes.Buffer
		if err := generate(&b); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(completions, name), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return manPages(root, man)
}

// manPages writes a compressed man page for each command into a folder.
func manPages(root *cobra.Command, dir string) error {
	root.InitDefaultHelpCmd()
	return eachCommand(root, func(c *cobra.Command) error {
		c.DisableAutoGenTag = true
		c.Long = verbatim(c.Long)
		var page, packed bytes.Buffer
		header := &doc.GenManHeader{Section: "1", Source: "ddtop " + cli.Version, Manual: "ddtop"}
		if err := doc.GenMan(c, header, &page); err != nil {
			return err
		}
		z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		if err != nil {
			return err
		}
		z.ModTime = time.Time{} // so that two builds give the same bytes
		if _, err := z.Write(page.Bytes()); err != nil {
			return err
		}
		if err := z.Close(); err != nil {
			return err
		}
		name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1.gz"
		if err := os.WriteFile(filepath.Join(dir, name), packed.Bytes(), 0o644); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
}

// eachCommand calls f for a command and, recursively, for each of its subcommands that the command help lists.
func eachCommand(c *cobra.Command, f func(*cobra.Command) error) error {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && !sub.IsAdditionalHelpTopicCommand() {
			if err := eachCommand(sub, f); err != nil {
				return err
			}
		}
	}
	return f(c)
}

// verbatim marks the indented lines of a help text, so that a man page shows them unchanged. The generator of man pages
// takes the text for Markdown, and would turn a table into a paragraph.
func verbatim(text string) string {
	var b strings.Builder
	inside := false
	for line := range strings.Lines(text + "\n") {
		indented := strings.HasPrefix(line, " ")
		if indented != inside {
			b.WriteString("\n```\n")
			if !indented {
				b.WriteString("\n")
			}
			inside = indented
		}
		b.WriteString(line)
	}
	if inside {
		b.WriteString("```\n")
	}
	return b.String()
}
