package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/ddtop/ddtop/attach"
)

// maxQuestions is how often the user is asked again after an answer that names no process.
const maxQuestions = 5

// maxAnswer is the longest answer read, in bytes.
const maxAnswer = 256

// errNotChosen is returned when the user chose none.
var errNotChosen = errors.New("no process was chosen")

// choose lists the Ruby processes and asks for one. Without a terminal it prints the list and fails with a usage error
// that says what to do.
func choose(ctx context.Context, std Streams) (pid int, err error) {
	list, err := attach.List(ctx)
	if err != nil {
		return 0, err
	}
	if len(list) == 0 {
		return 0, usageErrorf("there is no Ruby process on this machine that can be seen from here: " +
			"\"ddtop demo\" starts one to look at, \"ddtop -- ruby app.rb\" your own")
	}
	ps := describeAll(list, false, std.redact.redactor())
	if !std.Terminal {
		if err := writePs(std.Out, ps); err != nil {
			return 0, err
		}
		return 0, usageErrorf("without a terminal no process can be chosen: name one with -p PID and use dump, stat or record")
	}
	readable := 0
	for _, p := range ps {
		if p.Readable {
			readable++
		}
	}
	if err := writePs(std.Out, ps); err != nil {
		return 0, err
	}
	if readable == 0 {
		return 0, fmt.Errorf("none of these processes can be read: %w", list[0].Err)
	}
	return ask(ctx, std, ps)
}

// ask reads a PID of the list from the terminal. An empty line takes the only readable process, if there is one only.
func ask(ctx context.Context, std Streams, ps []psProcess) (int, error) {
	def := onlyReadable(ps)
	prompt := "PID (q quits): "
	if def != 0 {
		prompt = fmt.Sprintf("PID [%d] (q quits): ", def)
	}
	for range maxQuestions {
		if _, err := fmt.Fprint(std.Out, prompt); err != nil {
			return 0, err
		}
		answer, err := readAnswer(ctx, std.In)
		if err != nil {
			return 0, err
		}
		switch pid, notNumber := strconv.Atoi(answer); {
		case answer == "q":
			return 0, errNotChosen
		case answer == "" && def != 0:
			return def, nil
		case notNumber == nil && listed(ps, pid):
			return pid, nil
		}
		if _, err := fmt.Fprintf(std.Out, "%q is none of the PIDs above.\n", answer); err != nil {
			return 0, err
		}
	}
	return 0, errNotChosen
}

// readAnswer reads one line. A terminal gives a line a read, and no more is read than that: what is typed after the
// answer is for the screen. When ctx ends first, the read goes on; ddtop exits then.
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
		return "", errNotChosen
	case got := <-done:
		if got.err != nil {
			return "", errNotChosen
		}
		return got.text, nil
	}
}

func onlyReadable(ps []psProcess) int {
	pid := 0
	for _, p := range ps {
		if !p.Readable {
			continue
		}
		if pid != 0 {
			return 0
		}
		pid = p.PID
	}
	return pid
}

func listed(ps []psProcess, pid int) bool {
	for _, p := range ps {
		if p.PID == pid {
			return true
		}
	}
	return false
}
