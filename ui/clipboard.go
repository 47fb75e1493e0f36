package ui

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/style"
	"github.com/ddtop/ddtop/ui/widget"
)

// copyText copies a text to the clipboard of the user's terminal, with the escape sequence OSC 52. In tmux this works
// only if tmux accepts the sequence itself (set-clipboard on) or passes it on to the outer terminal
// (allow-passthrough). By default tmux does neither. So copyText also runs a command of tmux.
func copyText(sc *scene.Scene, text string) tea.Cmd {
	set := ansi.SetSystemClipboard(text)
	write := func(text string) tea.Cmd { return func() tea.Msg { return writeMsg{text} } }
	if !sc.Opt.Tmux {
		return write(set)
	}
	return tea.Batch(write(set), write(ansi.TmuxPassthrough(set)), loadBuffer(text))
}

// copyPath copies the path of a written file to the clipboard. If names are redacted, it copies only the file's name
// without the directories, because users paste it elsewhere.
func copyPath(sc *scene.Scene, path string) tea.Cmd {
	if sc.Opt.Redactor != nil {
		path = filepath.Base(path)
	}
	return copyText(sc, path)
}

// tmuxWithin is how long the tmux command in loadBuffer may take to accept a text.
const tmuxWithin = 5 * time.Second

// loadBuffer runs a command that puts a text into tmux's own buffer. tmux 3.2 and later also puts it into the clipboard
// of the terminal in which tmux runs.
func loadBuffer(text string) tea.Cmd {
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(context.Background(), tmuxWithin)
		defer cancel()
		for _, args := range [][]string{{"load-buffer", "-w", "-"}, {"load-buffer", "-"}} {
			c := exec.CommandContext(ctx, "tmux", args...)
			c.Stdin = strings.NewReader(text)
			if c.Run() == nil {
				break
			}
		}
		return nil // no error is shown: even if both tmux commands fail, the escape sequences may work
	}
}

// yank copies the stack of the thing that the user has selected, such as a thread, to the clipboard. If nothing is
// selected, it copies the summary.
func yank(m *Model) tea.Cmd {
	title, stack := m.current().Stack(&m.Scene)
	if len(stack) == 0 {
		return yankSummary(m)
	}
	m.message.Say(fmt.Sprintf("copied the stack of %s: %s", title, units.Plural(len(stack), "frame", "frames")))
	return copyText(&m.Scene, title+"\n  "+strings.Join(stack, "\n  ")+"\n")
}

// yankSummary copies a summary to the clipboard, as Markdown for a chat: what is wrong, the cause, and what the threads
// do.
func yankSummary(m *Model) tea.Cmd {
	if m.LastNS == 0 {
		m.message.Fail("nothing to copy yet: no sample has come")
		return nil
	}
	text := summary(m)
	m.message.Say(fmt.Sprintf("copied a summary in Markdown: %d lines", strings.Count(text, "\n")))
	return copyText(&m.Scene, text)
}

const (
	// maxBlamed limits how many places of code a summary lists, and maxListed how many threads. The summary must not be
	// long, because chats fold longer messages until the reader clicks.
	maxBlamed = 5
	maxListed = 20
	// muchRun decides which threads of a group the summary lists one by one. These are the threads that have held the
	// GVL for at least this share of the time.
	muchRun = 0.25
)

// summary returns the text of a summary of the time that the screen shows.
func summary(m *Model) string {
	var b strings.Builder
	p, f := &m.Process, &m.Figures
	fmt.Fprintf(&b, "**%s** pid %d, ruby %s, %s until %s\n\n", markdown(p.Name()), p.PID, p.RubyVersion, style.AxisTime(m.WindowNS), p.WallTime(m.AtNS).Format("2006-01-02 15:04:05"))
	if len(m.Findings.List) == 0 {
		b.WriteString("* no findings in the last 10 s\n")
	}
	if len(m.Findings.Current()) == 0 && m.Findings.Growing.SpanNS > 0 {
		b.WriteString("* " + m.Findings.GrowingText() + "\n")
	}
	for _, x := range m.Findings.List {
		fmt.Fprintf(&b, "* %s**%s**: %s\n", x.When(), markdown(x.Title), markdown(x.Text))
		if x.Native != "" {
			fmt.Fprintf(&b, "  in C: %s\n", markdown(x.Native))
		}
		if x.Next != "" {
			fmt.Fprintf(&b, "  → %s\n", markdown(x.Next))
		}
	}
	for _, n := range m.Notes.In(m.AtNS-m.WindowNS, m.AtNS, p) {
		fmt.Fprintf(&b, "* noted: %s\n", markdown(n))
	}
	var figures []string
	for _, g := range widget.GaugesOf(f, &m.Theme, &m.Served) {
		figures = append(figures, strings.TrimSpace(g.Label+" "+g.Value))
	}
	fmt.Fprintf(&b, "\n%s\n", markdown(strings.Join(figures, " · ")))
	if path := hotPath(m); path != "" {
		b.WriteString("\n" + path + "\n")
	}
	if top := blamedPlaces(&m.Scene); len(top) > 0 {
		b.WriteString("\nWhose code makes others wait for the GVL:\n\n")
		for i, line := range top {
			fmt.Fprintf(&b, "%d. %s\n", i+1, line)
		}
	}
	servedSummary(&m.Served, &b)
	b.WriteString("\n| thread | now | run | wait | io | rest |\n|---|---|--:|--:|--:|--:|\n")
	for i := range m.Timeline.Rows {
		w := &m.Timeline.Rows[i]
		run := w.Totals[gvl.Running] + w.Totals[gvl.Stalled] + w.Totals[gvl.GC]
		wait, io := w.Totals[gvl.Waiting], w.Totals[gvl.IO]
		var all int64
		for _, ns := range w.Totals {
			all += ns
		}
		if w.InGroup && style.Share(run, all) < muchRun { // do not list the thread: the row of its group represents it
			continue
		}
		if i >= maxListed {
			fmt.Fprintf(&b, "| and %d more | | | | | |\n", len(m.Timeline.Rows)-i)
			break
		}
		now := w.Words()
		if now == "" && w.IsGroup {
			now = m.Threads.States(w.Members).String()
		} else if th := &m.Threads[w.Members[0]]; now == "" && th.Known {
			now = gvl.Describe(th.State, m.Dict)
		}
		s := units.Percents(run, wait, io, all-run-wait-io)
		fmt.Fprintf(&b, "| %s | %s | %d %% | %d %% | %d %% | %d %% |\n", markdown(w.Name), markdown(now), s[0], s[1], s[2], s[3])
	}
	return b.String()
}

const (
	// hotShare decides where the hot path ends (see hotPath). The path goes on to a callee only if the callee has at
	// least this share of its caller's time.
	hotShare = 0.5
	// maxHot limits the frames of the hot path. If there are more, the outermost frames are left out, because the
	// innermost ones are of more interest.
	maxHot = 8
)

// hotPath returns the path of calls on which most time was spent, by the flamegraph's metric and filters. It begins
// with the thread that has the most time. From there it follows each callee that has at least half of its caller's
// time. It is empty if no time was measured.
func hotPath(m *Model) string {
	if !hasFlame(m) { // the weights are from the last drawing of the flamegraph
		buildFlame(m, true)
	}
	t := m.Flame.Tree
	if t == nil || t.Root.Total == 0 {
		return ""
	}
	var path []string
	n := t.Root
	for {
		var hot *flamegraph.Node
		for _, c := range n.Children {
			if c.Kind != flamegraph.LeafNode && (hot == nil || c.Total > hot.Total) {
				hot = c
			}
		}
		// The children of the root are the threads. So the first step goes to the thread with the most time, even if
		// its share is small.
		if hot == nil || n != t.Root && float64(hot.Total) < hotShare*float64(n.Total) {
			break
		}
		n = hot
		path = append(path, "`"+strings.ReplaceAll(canvas.Clean(n.Text()), "`", "'")+"`")
	}
	if len(path) == 0 {
		return ""
	}
	if over := len(path) - maxHot; over > 0 {
		path = append([]string{"…"}, path[over:]...)
	}
	where := ""
	if n.Path != "" {
		where = fmt.Sprintf(" (%s:%d)", markdown(n.Path), n.ExecLine)
	}
	return fmt.Sprintf("Hot path, %s of %s: %s%s", units.Percent(style.Share(n.Total, t.Root.Total)), style.MetricName(t.Metric), strings.Join(path, " → "), where)
}

// blamedPlaces lists the places in the code that held the GVL while other threads waited. The place that caused the
// most waiting comes first. View 6 shows the same list. If fewer than 0.05 threads waited on average, it lists none,
// because so little waiting does no harm.
func blamedPlaces(sc *scene.Scene) []string {
	b := widget.BlameOf(&sc.Weights, sc.Dict)
	if b.WaitNS < (sc.Weights.ToNS-sc.Weights.FromNS)/20 {
		return nil
	}
	var out []string
	for _, p := range b.Places[:min(len(b.Places), maxBlamed)] {
		code, where := gvl.AddLine(p.String(), style.LineIn(p.Path, p.Line, false))
		line := units.Percent(style.Share(p.NS, b.WaitNS)) + " `" + strings.ReplaceAll(canvas.Clean(code), "`", "'") + "`"
		if p.Path != "" && where != "" {
			line += " " + markdown(where)
		}
		out = append(out, line)
	}
	return out
}

// markdown makes a text printable, and escapes the characters that have a meaning in Markdown.
func markdown(s string) string {
	return export.Markdown(canvas.Clean(s))
}

// maxSummaryEndpoints limits how many routes a summary lists.
const maxSummaryEndpoints = 8

// servedSummary writes which routes were served in the time on the screen, as Markdown for a summary. The route with
// the most time comes first. If there are no routes, it writes nothing.
func servedSummary(s *scene.Served, b *strings.Builder) {
	list := s.Endpoints[:min(len(s.Endpoints), maxSummaryEndpoints)]
	if len(list) == 0 {
		return
	}
	b.WriteString("\nRequests and jobs, as far as seen:\n\n| endpoint | ended | running | p50 | p95 | longest | ± | blame |\n|---|--:|--:|--:|--:|--:|--:|--:|\n")
	for i := range list {
		e := &list[i]
		name, p50, p95, longest := "(others)", "–", "–", units.Duration(e.LongestNS)
		if !e.Other {
			name = scene.EndpointName(e.Kind, e.Name)
		}
		if n, _ := e.Durations.Count(); n > 0 {
			p50, p95 = units.Duration(e.Durations.Quantile(.5)), units.Duration(e.Durations.Quantile(.95))
		}
		switch {
		case e.LongestNS == 0:
			longest = "–"
		case e.LongestAtLeast:
			longest = "≥" + units.Duration(e.LongestNS)
		}
		slack := ""
		if ns := e.Slack(); ns > 0 {
			slack = units.Duration(ns)
		}
		fmt.Fprintf(b, "| %s | %d | %d | %s | %s | %s | %s | %s |\n", markdown(name), e.Ended, e.Running, p50, p95, longest, slack,
			units.Percent(min(style.Share(e.BlameNS, s.WaitNS), 1)))
	}
	if n := len(s.Endpoints) - len(list); n > 0 {
		fmt.Fprintf(b, "| and %d more | | | | | | | |\n", n)
	}
}
