package rivals

import (
	"strconv"
	"strings"
)

// script is a program in which each called method is called from only one line. So the test knows the right line of
// each caller. One thread computes in turns. For each line of input, the main thread prints the number of turns so far,
// the time and the process's CPU time.
const script = `
def first
  i = 0
  i += 1 while i < 200
  i
end

def second
  i = 0
  i += 2 while i < 400
  i
end

def third
  i = 0
  i += 3 while i < 600
  i
end

def turn
  first # turn calls first
  second # turn calls second
  third # turn calls third
  $turns += 1
end

def work
  while true
    turn # work calls turn
    $turns += 0
  end
end

def idle(queue)
  queue.pop
  :never
end

$turns = 0
9.times { Thread.new { idle(Queue.new) } }
Thread.new { work }
puts "up"
$stdout.flush
while $stdin.gets
  puts [$turns, Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond),
        Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID, :nanosecond)].join(" ")
  $stdout.flush
end
`

// threadsOfScript is the number of the program's threads: the main thread, one busy thread and nine idle threads.
const threadsOfScript = 11

// calls maps a caller and a callee to the lines of the script in which the caller calls the callee.
var calls = callsOf(script)

func callsOf(script string) map[string]map[string]int {
	all := make(map[string]map[string]int)
	for i, line := range strings.Split(script, "\n") {
		_, words, found := strings.Cut(line, " # ")
		caller, callee, is := strings.Cut(words, " calls ")
		if !found || !is {
			continue
		}
		if all[caller] == nil {
			all[caller] = make(map[string]int)
		}
		all[caller][callee] = i + 1
	}
	return all
}

// frame is a frame as a profiler reports it.
type frame struct {
	name string
	line int
}

// verdict sums up what a profiler reported.
type verdict struct {
	looks                int // samples of the process; each has a stack of every thread that the profiler reads
	stacks, impossible   int
	callers, right       int // frames of callers, and how many have the right line
	frames, named        int
	threads              map[string]bool
	firstWrong, firstOdd string
	refused              string // the profiler's message if it could not read the program
}

// judge adds one stack to the verdict, which counts right and wrong frames. The stack's innermost frame comes first.
func (v *verdict) judge(thread string, stack []frame) {
	v.stacks++
	if v.threads == nil {
		v.threads = make(map[string]bool)
	}
	v.threads[thread] = true
	possible := true
	for i, f := range stack {
		v.frames++
		if f.name != "" && !strings.Contains(f.name, "unknown") {
			v.named++
		}
		lines := calls[bare(f.name)]
		if i == 0 || lines == nil {
			continue
		}
		v.callers++
		want, calls := lines[bare(stack[i-1].name)]
		switch {
		case !calls:
			possible = false
			if v.firstOdd == "" {
				v.firstOdd = f.name + " called " + stack[i-1].name
			}
		case f.line == want:
			v.right++
		case v.firstWrong == "":
			v.firstWrong = f.name + ":" + strconv.Itoa(f.line) + " where " + stack[i-1].name + " is called in line " + strconv.Itoa(want)
		}
	}
	if !possible {
		v.impossible++
	}
}

// bare returns a method's name without its class, because profilers show classes in different ways.
func bare(name string) string {
	if i := strings.LastIndexAny(name, "#."); i >= 0 {
		return name[i+1:]
	}
	return name
}
