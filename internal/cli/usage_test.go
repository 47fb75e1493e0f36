package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/internal/cli"
)

func TestHelp(t *testing.T) {
	names := []string{"ddtop", "flags"}
	for _, c := range cli.Command().Commands() {
		names = append(names, c.Name())
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			args := []string{"help", name}
			if name == "ddtop" {
				args = []string{"help"}
			}
			r := run(t, args...)
			r.want(t, 0)
			golden(t, "help-"+name+".txt", r.out)
			for _, line := range strings.Split(r.out, "\n") {
				if len([]rune(line)) > 120 {
					t.Errorf("a line of %d columns: %s", len([]rune(line)), line)
				}
			}
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v: go test -update writes it", err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test -update writes it again):\n%s", path, got)
	}
}

// TestHelpFitsOneScreen: the output of ddtop --help fits a terminal of 80x24 with a line for the prompt. It names every
// command and ten flags.
func TestHelpFitsOneScreen(t *testing.T) {
	help := run(t, "--help").out
	if n := strings.Count(help, "\n"); n > 23 {
		t.Errorf("%d lines", n)
	}
	flags := 0
	for line := range strings.Lines(help) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("a line of %d columns: %s", n, line)
		}
		if strings.Contains(line, " --") && !strings.Contains(line, "ddtop --") {
			flags++
		}
	}
	if flags != 10 {
		t.Errorf("%d flags, want 10", flags)
	}
	topics, _, _ := strings.Cut(run(t, cobra.ShellCompNoDescRequestCmd, "help", "").out, "\n:")
	if !strings.Contains(topics, "report") {
		t.Fatalf("the topics of help are %q", topics)
	}
	for _, topic := range strings.Fields(topics) {
		if !regexp.MustCompile(`\b` + topic + `\b`).MatchString(help) {
			t.Errorf("%q is not in the help of ddtop", topic)
		}
	}
	if short := run(t, "help").out; short != help {
		t.Error("ddtop help is not ddtop --help")
	}
}

// TestHelpOnNothing: ddtop help returns an error for words that are no command, and suggests the nearest command.
func TestHelpOnNothing(t *testing.T) {
	for words, want := range map[string]string{
		"nosuch":      `there is no help on "nosuch"; "ddtop help" lists the commands`,
		"dmup":        `there is no help on "dmup"; did you mean dump or mcp?`,
		"dump nosuch": `there is no help on "dump nosuch"`,
		"flags more":  `there is no help on "flags more"`,
	} {
		r := run(t, append([]string{"help"}, strings.Fields(words)...)...)
		if r.code != 2 || !strings.Contains(r.err, want) || r.out != "" {
			t.Errorf("help %s: code %d, %q, %q", words, r.code, r.out, r.err)
		}
	}
	if r := run(t, cobra.ShellCompNoDescRequestCmd, "help", "fl"); !strings.Contains(r.out, "flags\n") {
		t.Errorf("help is completed with %q", r.out)
	}
}

func TestHelpNamesTheExitCodes(t *testing.T) {
	help := run(t, "help", "flags").out
	for _, line := range []string{"0    done", "1    failed", "2    wrong use", "3    no permission", "4    not a Ruby process", "125  ddtop itself failed"} {
		if !strings.Contains(help, line) {
			t.Errorf("the help text lacks %q", line)
		}
	}
}

func TestWrongUse(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"nonsense", 2, `no command "nonsense"`},
		{"--nonsense", 2, "unknown flag: --nonsense"},
		{"dump --nonsense", 2, `"ddtop dump --help" lists the flags`},
		{"dump", 2, "needs -p PID"},
		{"push", 2, "needs -p PID or --match REGEXP"},
		{"push puma --to file:///x", 2, `takes no argument "puma"`},
		{"push -p 1", 2, "needs --to URL"},
		{"push -p 0 --to file:///x", 2, "0 is not a process"},
		{"push --match ( --to file:///x", 2, "missing closing )"},
		{"push -p 1 --to x", 2, "it takes a URL, as in file:///var/profiles"},
		{"push -p 1 --to ftp://me:secret@host/", 2, `no destination "ftp://"`},
		{"push -p 1 --to file:x", 2, "whole path"},
		{"push -p 1 --to datadog://me:secret@host", 2, "the key comes from the environment"},
		{"push -p 1 --to file:///x --period 1h1m", 2, "1s to 1h"},
		{"push -p 1 --to file:///x --spool-size much", 2, "not a number of bytes"},
		{"push -p 1 --to file:///x --tag service", 2, "not key:value"},
		{"push -p 1 --to file:///x --tag a:b --tag a:c", 2, "given twice"},
		{"push -p 1 --to file:///x --tag key:ghp_0123456789abcdef", 2, "looks like a key or a password"},
		{"dump -p", 2, "flag needs an argument"},
		{"dump -p x", 2, `invalid argument "x"`},
		{"dump -p 0", 2, "0 is not a process"},
		{"dump -p -1", 2, "-1 is not a process"},
		{"dump -p 99999999999999999999", 2, "invalid argument"},
		{"diff x", 2, "takes two files"},
		{"diff " + file + " " + file + " --metric calories", 2, `no metric "calories"`},
		{"diff " + file + " " + file + " -o x.html", 1, "not a ddtop recording"},
		{"diff " + file + " " + file + " -o x.svg", 2, "the end of x.svg stands for no format"},
		{"diff " + file + " " + file + " -o x.folded --format text", 2, "in the format collapsed, not text"},
		{"diff " + file + " " + file + " -o x.html --format text", 2, "in the format html, not text"},
		{"diff " + dir + " " + file, 1, "directory"},
		{"stat -p 1 --interval 10ms", 2, "100ms to 1h"},
		{"stat -p 1 --interval 1s --finding gvl_hog=off", 2, "--finding does not go with --interval"},
		{"stat -p 1 --interval 1s --endpoint x", 2, "--endpoint does not go with --interval"},
		{"record -p 1 -o x.svg --format pprof", 2, "x.svg is the name of a file in the format svg, not pprof"},
		{"record -p 1 -o x.PB.gz --format ddtop", 2, "in the format pprof, not ddtop"},
		{"record -p 1 -o callgrind.out.7 --format pprof", 2, "in the format callgrind, not pprof"},
		{"record -p 1 -o x.json", 2, "in JSON are speedscope, firefox, chrome: say which with --format"},
		{"record -p 1 -o x.json --format svg", 2, "x.json is no name for the format svg"},
		{"record -p 1 -o x.html --format pprof", 2, "x.html is the name of a file in the format html, not pprof"},
		{"record -p 1,2 -o x.jsonl", 2, "jsonl holds one process"},
		{"record -p 1 -o x.html --endpoint x", 2, "--endpoint does not go with html"},
		{"record -p 1 -o x.folded --all-frames", 2, "--all-frames is of svg and html, not of collapsed"},
		{"record -p 1 -o x.svg --timeline", 2, "--timeline goes with --format pprof"},
		{"report " + file + " -o x.json", 2, "or take --json for stat"},
		{"report " + file + " -o x.folded --format dump", 2, "in the format collapsed, not dump"},
		{"record -p 1 -o - --format firefox --timeline", 2, "--timeline goes with --format pprof"},
		{"dmup", 2, `there is no command "dmup"; did you mean dump or mcp?`},
		{"top", 2, `there is no command "top"; "ddtop PID" opens the screen; press 5 there`},
		{"attach 4194305", 2, `there is no command "attach"; "ddtop 4194305" opens the screen`},
		{"trace 4194305", 2, `"ddtop record 4194305 -d 10s -o trace.chrome.json" writes a trace`},
		{"pprof 4194305", 2, `"ddtop record 4194305 -d 10s -o profile.pb.gz" writes a profile`},
		{"flamegraph 4194305", 2, `"ddtop record 4194305 -d 10s -o flame.svg" writes a file`},
		{"help trace", 2, `"ddtop record PID -d 10s -o trace.chrome.json"`},
		{"dump nonsense-of-no-process", 4, `no Ruby process has "nonsense-of-no-process" in its name or command line`},
		{"dump 17 -p 18", 2, "choose"},
		{"dump nonsense --core x", 2, "choose"},
		{"dump 0", 2, "0 is not a process"},
		{"ps 17", 2, `takes no argument "17"`},
		{"17", 2, "needs a terminal"},
		{"dump -p 1 --core x", 2, "choose"},
		{"dump --core x -d 1s", 2, "one instant"},
		{"dump --exe x -p 1", 2, "go with --core"},
		{"dump --core /no/such/core", 1, "/no/such/core"},
		{"dump --core /bin/sh", 1, "not a core file"},
		{"layout", 2, "takes one file"},
		{"layout /no/such/file", 1, "/no/such/file"},
		{"layout /etc/passwd", 1, "/etc/passwd"},
		{"layout /bin/sh", 4, "does not define ruby_version"},
		{"layout --ruby 3.4.9 /bin/sh", 1, "no debug information"},
		{"stat", 2, "needs -p PID"},
		{"stat -p 1 -d never", 2, `"never" is not a duration`},
		{"stat -p 1 -d 0", 2, "10ms to 24h"},
		{"stat -p 1 -d -3s", 2, "10ms to 24h"},
		{"stat -p 1 -d NaN", 2, "is not a duration"},
		{"stat -p 1 --rate 0", 2, "--rate takes 0.1 to 10000 Hz"},
		{"stat -p 1 --rate NaN", 2, "--rate takes 0.1 to 10000 Hz"},
		{"stat -p 1 --overhead NaN", 2, "it takes 0.1% to 100% of one CPU, or off"},
		{"stat -p 1 --overhead 101%", 2, "it takes 0.1% to 100% of one CPU, or off"},
		{"stat -p 1 --overhead .01", 2, "it takes 0.1% to 100% of one CPU, or off"},
		{"stat -p 1 --lock-rate 20000", 2, "--lock-rate takes 0.1 to 10000 Hz"},
		{"record -p 1", 2, "needs -o FILE"},
		{"record -p 1 -o " + dir, 2, "is a folder"},
		{"record -p 1 -o " + dir + "/no/file", 1, "can't be written"},
		{"record -p 1 -o x --format mp3", 2, `no format "mp3"`},
		{"record -p 1 -o x --metric calories", 2, `no metric "calories"`},
		{"demo --phase lunch", 2, `no phase "lunch"`},
		{"demo --ruby /no/such/ruby", 1, "/no/such/ruby"},
		{"-p 1", 2, "needs a terminal"},
		{"-p 1 --window 1h", 2, "1s to 10m"},
		{"-p 1 --history 2h", 2, "1s to 1h"},
		{"-p 1 --theme pink", 2, "high-contrast"},
		{"demo --theme pink", 2, "high-contrast"},
		{"-p 1 --snapshots=", 2, "a folder needs a name"},
		{"-p 1 --snapshots " + file, 2, file + " is not a folder"},
		{"-p 1 --snapshots " + file + "/in/it", 2, file + " is not a folder"},
		{"demo --snapshots /proc/no/such", 2, "choose a folder you may write to"},
		{"-p 1 --snapshots " + dir + "/made/when/needed", 2, "needs a terminal"},
		{"--", 2, "the program to start"},
		{"-p 1 -- true", 125, "choose"},
		{"--rate x -- true", 125, "invalid argument"},
		{"-- /no/such/program", 125, "/no/such/program"},
	} {
		t.Run(c.args, func(t *testing.T) {
			r := run(t, strings.Fields(c.args)...)
			r.want(t, c.code, c.want)
			if r.out != "" {
				t.Errorf("it printed %q", r.out)
			}
		})
	}
}

func TestScreenSaysWhatToUseWithoutATerminal(t *testing.T) {
	run(t, "-p", "4242").want(t, 2, "ddtop dump -p 4242", "ddtop stat -p 4242", "ddtop record -p 4242")
}

func TestVersion(t *testing.T) {
	for _, word := range []string{"version", "--version"} {
		r := run(t, word)
		r.want(t, 0)
		if !strings.HasPrefix(r.out, "ddtop 0.") || strings.Count(r.out, "\n") != 1 {
			t.Errorf("%s prints %q", word, r.out)
		}
	}
}

// TestCompletionBehindTheDashes: after -- and the name of a program to start, the shell's completion offers files, not
// PIDs.
func TestCompletionBehindTheDashes(t *testing.T) {
	files := fmt.Sprintf(":%d", cobra.ShellCompDirectiveDefault)
	for _, c := range []struct {
		words []string
		files bool
	}{
		{[]string{"--", "ruby", "app"}, true}, {[]string{"--children", "--", "bundle", "exec", ""}, true}, {[]string{"9"}, false}, {[]string{"dump", "9"}, false},
	} {
		r := run(t, append([]string{cobra.ShellCompNoDescRequestCmd}, c.words...)...)
		if got := strings.Contains(r.out, files+"\n"); r.code != 0 || got != c.files {
			t.Errorf("%q: code %d, %q", c.words, r.code, r.out)
		}
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if r := run(t, "completion", shell); r.code != 0 || !strings.Contains(r.out, "ddtop") {
			t.Errorf("completion %s: code %d, %d bytes, %s", shell, r.code, len(r.out), r.err)
		}
	}
}
