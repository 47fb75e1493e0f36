package cli

import (
	"cmp"
	"fmt"
	"strings"
)

// habits maps commands of other profilers to ddtop's equivalent. %s stands for the process. No code changes the map.
var habits = map[string]string{
	"attach":     `"ddtop %s" opens the screen`,
	"top":        `"ddtop %s" opens the screen; press 5 there for the functions`,
	"watch":      `"ddtop %s" opens the screen, "ddtop stat %[1]s --interval 1s" prints a line a second`,
	"flame":      `"ddtop %s" opens the screen, press 4 there; "ddtop record %[1]s -d 10s -o flame.svg" writes a file`,
	"trace":      `"ddtop record %s -d 10s -o trace.chrome.json" writes a trace for https://ui.perfetto.dev`,
	"pprof":      `"ddtop record %s -d 10s -o profile.pb.gz" writes a profile for go tool pprof`,
	"callgrind":  `"ddtop record %s -d 10s -o out.callgrind" writes a profile for KCachegrind`,
	"speedscope": `"ddtop record %s -d 10s -o profile.speedscope.json" writes a profile for https://speedscope.app`,
	"stack":      `"ddtop dump %s" prints all stacks`,
}

// sameHabit maps synonyms of commands to keys of habits. No code changes the map.
var sameHabit = map[string]string{
	"flamegraph": "flame", "profile": "pprof", "prof": "pprof", "perfetto": "trace", "tracing": "trace",
	"snapshot": "stack", "stacks": "stack", "bt": "stack", "backtrace": "stack", "jstack": "stack", "threads": "stack",
	"live": "attach", "connect": "attach", "open": "attach",
}

// habit returns advice about which ddtop command replaces another profiler's command. It returns "" if typed does not
// begin with such a command.
func habit(typed string) string {
	word, process, _ := strings.Cut(typed, " ")
	if !isTypable(strings.ReplaceAll(process, " ", "")) {
		process = ""
	}
	does := habits[cmp.Or(sameHabit[word], word)]
	if does == "" {
		return ""
	}
	return fmt.Sprintf("there is no command %q; ", word) + fmt.Sprintf(does, cmp.Or(process, "PID"))
}
