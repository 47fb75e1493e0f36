package attach

import (
	"bytes"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ddtop/ddtop/attach/mapped"
)

// maxArguments limits how many bytes of a command line are read.
const maxArguments = 64 << 10

// splitCommandLine splits the text of /proc/PID/cmdline at its zero bytes.
func splitCommandLine(text []byte) []string {
	if len(text) > maxArguments {
		text = text[:maxArguments]
	}
	text = bytes.TrimRight(text, "\x00")
	if len(text) == 0 {
		return nil
	}
	return strings.Split(string(text), "\x00")
}

// titleOf returns a program's name without arguments. For a ruby command line it returns the script's base name. For a
// title that the program has set itself ("puma 6.4.0 (tcp://…) [app]") it returns the first word.
func titleOf(args []string, comm string) string {
	if len(args) == 0 {
		return comm
	}
	if inner := emulated(args); inner != nil {
		args = inner
	}
	first, _, _ := strings.Cut(args[0], " ")
	name := strings.TrimSuffix(filepath.Base(first), ":")
	if !mapped.IsRubyName(name) || len(args) == 1 {
		return name
	}
	if script := scriptOf(args[1:]); script != "" {
		return filepath.Base(script)
	}
	return name
}

// emulatorOptionsWithValue are qemu-user's options whose value is the next argument (linux-user/main.c, arg_table).
var emulatorOptionsWithValue = []string{"-L", "-E", "-U", "-0", "-r", "-s", "-B", "-R", "-g", "-d", "-D", "-dfilter",
	"-p", "-cpu", "-seed", "-trace", "-plugin", "-tb-size"}

// emulated returns the arguments of the Ruby that the emulator qemu-user runs. It returns nil if args belong to another
// program. The kernel's binfmt_misc (flag P) may put the file's path before the program's own first argument.
func emulated(args []string) []string {
	if !strings.HasPrefix(filepath.Base(args[0]), "qemu-") {
		return nil
	}
	i := 1
	for i < len(args) && strings.HasPrefix(args[i], "-") {
		if slices.Contains(emulatorOptionsWithValue, args[i]) {
			i++
		}
		i++
	}
	if i >= len(args) || !mapped.IsRubyName(filepath.Base(args[i])) {
		return nil
	}
	if i+1 < len(args) && mapped.IsRubyName(filepath.Base(args[i+1])) {
		i++
	}
	return args[i:]
}

// optionsWithValue are ruby's options whose value may be the next argument (ruby.c, proc_options).
const optionsWithValue = "CEIrX"

// scriptOf finds the script in ruby's arguments: the first argument that is neither an option nor an option's value. It
// returns "" if there is no script, because of -e or because the program comes from standard input.
func scriptOf(args []string) string {
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "--":
			if i+1 < len(args) {
				return args[i+1]
			}
			return ""
		case a == "-" || strings.HasPrefix(a, "-e"):
			return ""
		case strings.HasPrefix(a, "--"):
			switch a {
			case "--encoding", "--external-encoding", "--internal-encoding", "--parser", "--backtrace-limit", "--crash-report", "--enable", "--disable":
				i++
			}
		case strings.HasPrefix(a, "-"):
			if len(a) == 2 && strings.Contains(optionsWithValue, a[1:]) {
				i++
			}
		default:
			return a
		}
	}
	return ""
}

// MasterPart is the Part (role in a service) of a process whose children are the service's workers.
const MasterPart = "master"

// These expressions match titles in which programs name their role in a service, for example the worker's number:
//
// - Puma: "puma: cluster worker 0: 4242 [shop]"
// - Unicorn: "unicorn worker[0] -D"
// - Pitchfork: "pitchfork (gen:0) mold"
// - Sidekiq: "sidekiq 6.4.1 shop [3 of 5 busy] stopping"
var (
	parenthesised = regexp.MustCompile(`\([^)]*\)`)
	workerTitle   = regexp.MustCompile(`\bworker(?:\[|[ :#]+)(\d{1,4})\b`)
	busyTitle     = regexp.MustCompile(`\[(\d+ of \d+ busy)\]( stopping)?$`)
	partTitles    = []string{MasterPart, "mold", "monitor"}
)

// partOf returns the role of a process in a service, as its own title names it: "w0" is the worker with the number 0.
// The second result, now, is the part of the title that changes, such as "[3 of 5 busy]". It ends with " quiet" if the
// process takes no more jobs. Both results are "" if the program has not set a title.
func partOf(args []string) (part, now string) {
	if len(args) != 1 || !strings.Contains(args[0], " ") {
		return "", ""
	}
	text := strings.TrimRight(parenthesised.ReplaceAllString(args[0], ""), " ")
	if m := busyTitle.FindStringSubmatch(text); m != nil {
		now = "[" + m[1] + "]"
		if m[2] != "" {
			now += " quiet"
		}
	}
	// Cut off the text in brackets after a space. It is the name of an application.
	text, _, _ = strings.Cut(text, " [")
	if m := workerTitle.FindStringSubmatch(text); m != nil {
		return "w" + m[1], now
	}
	if words := strings.Fields(text); len(words) > 1 && slices.Contains(partTitles, words[1]) {
		part = words[1]
	}
	return part, now
}

// WorkerNumber returns the number in a worker's role in a service: 3 for the part "w3". ok is false for all other
// roles.
func WorkerNumber(part string) (n int, ok bool) {
	digits, ok := strings.CutPrefix(part, "w")
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil
}

// findMasters sets Part to MasterPart for each process in a list that has a worker as a child. The worker must have the
// same Title as its parent.
func findMasters(list []Candidate) {
	at := make(map[int]*Candidate, len(list))
	for i := range list {
		at[list[i].PID] = &list[i]
	}
	for i := range list {
		parent := at[list[i].PPID]
		_, worker := WorkerNumber(list[i].Part)
		if worker && parent != nil && parent.Part == "" && parent.Title == list[i].Title {
			parent.Part = MasterPart
		}
	}
}
