package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/internal/cli/flags"
)

// overview is ddtop's help text above the list of flags. With the flags it fits a terminal of 80x24 with a prompt.
const overview = `See live what each thread of a running Ruby does, and which one holds the GVL.

Look    ddtop PID|NAME  open the screen; without a name, choose from a list
        ddtop -- ruby … start a program and watch it
        ps, dump        list the Ruby processes; print each thread's stack
        stat, heap      measure, then print the time; count objects by class
Keep    record, push    write a page, profile or recording; send profiles
        replay, report  show a recording on the screen; print or convert it
        diff, mcp       compare two recordings or profiles; tools for assistants
Set up  doctor, demo    check what works on this machine; try a bundled program

`

// overviewFlags are the most used flags, with shorter descriptions. The overview shows only these.
var overviewFlags = [...]struct{ name, words string }{
	{"pid", "the process to watch; several: -p 17,18"},
	{"children", "also watch the Ruby processes below it"},
	{"history", "how much of the past to keep: 10m"},
	{"overhead", "the most CPU that ddtop takes: 3%, off"},
	{"source", "switches (BPF programs), moved, polling; auto chooses"},
	{"exact", "every wait to the microsecond; puts breakpoints into it"},
	{"pause", "stop the process for each sample of stacks, at most about 5 ms"},
	{"redact", "replace names in everything you share"},
	{"values", "read paths, arguments, literals and messages too"},
	{"theme", "auto, dark, light, high-contrast"},
}

func writeOverview(w io.Writer, root *cobra.Command) error {
	var b strings.Builder
	b.WriteString(overview)
	for _, f := range overviewFlags {
		flag := root.Flags().Lookup(f.name)
		name := "    --" + flag.Name
		if flag.Shorthand != "" {
			name = "-" + flag.Shorthand + ", --" + flag.Name
		}
		fmt.Fprintf(&b, "  %-15s %s\n", name, f.words)
	}
	b.WriteString("\nMore: ddtop help COMMAND, ddtop help flags. Also: completion, layout, version.\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// addHelp replaces cobra's help by ddtop's overview. It adds a help command that also knows the topic "flags".
func addHelp(root *cobra.Command) {
	whole := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if cmd != root {
			whole(cmd, args)
			return
		}
		// If this write fails, the writer (remembering) keeps the error, and Main reports it.
		_ = writeOverview(root.OutOrStdout(), root)
	})
	root.SetHelpCommand(&cobra.Command{
		Use:   "help [COMMAND | flags]",
		Short: "Explain a command, or all flags",
		ValidArgsFunction: func(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []string
			for _, name := range helpTopics(root) {
				if strings.HasPrefix(name, typed) {
					names = append(names, name)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			root.InitDefaultVersionFlag()
			if len(args) == 1 && args[0] == flagsTopic {
				whole(root, nil)
				return nil
			}
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return unknownTopic(root, args)
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	})
}

const flagsTopic = "flags"

// helpTopics returns the words that `ddtop help` accepts.
func helpTopics(root *cobra.Command) []string {
	names := []string{flagsTopic}
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return names
}

// unknownTopic returns the error of `ddtop help` for unknown words. It suggests the nearest command.
func unknownTopic(root *cobra.Command, args []string) error {
	if does := habit(strings.Join(args, " ")); does != "" {
		return flags.Usagef("%s", does)
	}
	if near := root.SuggestionsFor(args[0]); len(near) > 0 {
		return flags.Usagef("there is no help on %q; did you mean %s?", strings.Join(args, " "), strings.Join(near, " or "))
	}
	return flags.Usagef("there is no help on %q; \"ddtop help\" lists the commands", strings.Join(args, " "))
}
