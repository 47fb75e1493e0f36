// Package sudo offers to run the same ddtop command with sudo, if an error would not occur as root. It can also only
// print this command as advice.
package sudo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/cli/exact"
	"github.com/ddtop/ddtop/internal/cli/run"
)

// Again returns the arguments that start ddtop once more for the same processes. args are the present arguments, and
// cmd is the command in them. If the user found the processes by words, PIDs replace these words.
func Again(c *run.Chosen, args []string, cmd *cobra.Command) []string {
	if len(c.PIDs) == 0 {
		return args
	}
	// The words by which the user found the processes are the last positional arguments. The command's name may come
	// before them.
	at := positionals(args, cmd)
	at = at[max(0, len(at)-len(c.Words)):]
	var left []string
	for i, arg := range args {
		if !slices.Contains(at, i) {
			left = append(left, arg)
		}
	}
	args = append(left, "-p", c.PIDs.String())
	if c.Children && !slices.Contains(args, "--children") {
		args = append(args, "--children")
	}
	return args
}

// positionals returns the indexes of the arguments that are neither flags nor values of flags. A flag's value must not
// be taken for a process's name, even if it is the same text. It can be a file, to which ddtop would then write as
// root.
func positionals(args []string, cmd *cobra.Command) []int {
	var at []int
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "--":
			return at
		case strings.HasPrefix(a, "--"):
			if f := cmd.Flags().Lookup(a[2:]); f != nil && f.NoOptDefVal == "" {
				i++ // skip the flag's value; Lookup does not find --flag=VALUE
			}
		case len(a) > 1 && a[0] == '-':
			for j := 1; j < len(a); j++ {
				if f := cmd.Flags().ShorthandLookup(a[j : j+1]); f == nil || f.NoOptDefVal == "" {
					if f != nil && j == len(a)-1 {
						i++
					}
					break // the rest of this argument is the flag's value
				}
			}
		default:
			at = append(at, i)
		}
	}
	return at
}

// kept are environment variables that sudo removes, but that ddtop needs. They are for the screen, the place of the
// settings file, and --debuginfod.
var kept = []string{"COLORTERM", "NO_COLOR", "TMUX", "XDG_CONFIG_HOME", "LANG", "LC_ALL", "LC_CTYPE",
	"DEBUGINFOD_URLS", "DEBUGINFOD_CACHE_PATH"}

// NameCommand adds the full sudo command to the text of an error (the parameter why), if the error would not occur as
// root. It returns the arguments of ddtop in this command. If the error would also occur as root, NameCommand returns
// nil.
func NameCommand(why error, args []string, cmd *cobra.Command, std run.Streams) []string {
	var inexact *exact.Error
	if errors.As(why, &inexact) && inexact.RootHelps() {
		args = Again(std.Chosen, args, cmd)
		inexact.Command = "sudo ddtop " + ShellWords(args)
		return args
	}
	var refused *attach.TargetError
	if !errors.As(why, &refused) || !refused.Root {
		return nil
	}
	args = Again(std.Chosen, args, cmd)
	general, exact := fmt.Sprintf("`sudo ddtop -p %d`", refused.PID), "`sudo ddtop "+ShellWords(args)+"`"
	if strings.Contains(refused.Help, general) {
		refused.Help = strings.ReplaceAll(refused.Help, general, exact)
	} else {
		refused.Help = strings.TrimSpace(refused.Help + " Or run " + exact + ".")
	}
	return args
}

// Offer asks the user at the terminal whether to run ddtop with sudo. If the user agrees, it runs sudo and does not
// return. config is the path of the user's settings, or "".
func Offer(ctx context.Context, args []string, std run.Streams, config string) error {
	if !std.Terminal || args == nil {
		return nil
	}
	program, err := exec.LookPath("sudo")
	if err != nil || ctx.Err() != nil {
		return nil // the error already names the sudo command
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if _, err := fmt.Fprint(std.Out, "ddtop: this needs root; run it with sudo? [Y/n] "); err != nil {
		return err
	}
	switch answer, err := readAnswer(ctx, std.In); {
	case err != nil, answer != "" && !strings.EqualFold(answer, "y") && !strings.EqualFold(answer, "yes"):
		return nil
	}
	env := os.Environ()
	if config != "" {
		if _, err := os.Stat(config); err == nil { // otherwise root would use its own settings
			env = append(slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, "XDG_CONFIG_HOME=") }),
				"XDG_CONFIG_HOME="+filepath.Dir(filepath.Dir(config)))
		}
	}
	keep := slices.DeleteFunc(slices.Clone(kept), func(name string) bool {
		return !slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
	})
	words := []string{"sudo"}
	if len(keep) > 0 {
		words = append(words, "--preserve-env="+strings.Join(keep, ","))
	}
	if err := syscall.Exec(program, append(append(words, "--", self), args...), env); err != nil {
		return fmt.Errorf("running %s: %w", program, err)
	}
	return nil
}

// ShellWords returns the arguments as a user would type them into a shell, with quotes if needed.
func ShellWords(args []string) string {
	out := make([]string, len(args))
	for i, a := range args {
		plain := a != "" && strings.Trim(a, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./,:@%+") == ""
		if out[i] = a; !plain {
			out[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}

// maxAnswer limits how many bytes of the user's answer are read.
const maxAnswer = 256

// readAnswer reads one line from the terminal. A terminal returns one line for each read, and readAnswer reads only
// once, because later input is for the screen. If ctx ends before the user answers, the read goes on in the background,
// and ddtop exits.
func readAnswer(ctx context.Context, r io.Reader) (string, error) {
	type result struct {
		text string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		buf := make([]byte, maxAnswer)
		n, err := r.Read(buf)
		if n > 0 {
			err = nil
		}
		done <- result{strings.TrimSpace(string(buf[:n])), err}
	}()
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case got := <-done:
		return got.text, got.err
	}
}
