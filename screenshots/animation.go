package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/ddtop/ddtop/export/snapshot"
	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/ui"
)

// The animation is a single SVG with one picture for each step. CSS keyframes show the pictures one at a time. The SVG
// has no script, because GitHub blocks scripts.

// The size of the animation's pictures, in cells.
const animationWidth, animationHeight = 110, 34

// maxAnimation limits the size of the animation's file in bytes, because readers also load the README on a telephone.
const maxAnimation = 600_000

// captionHeight is the height of the space for a step's caption below its picture, in pixels.
const captionHeight = 34

// step is one picture of the animation.
type step struct {
	caption string
	length  time.Duration
	keys    []string // the keys typed on the live screen; nil if the step shows the list of processes
}

// steps are the steps of the animation. In 15 seconds they lead from the start of ddtop and the list of processes to
// the code that makes other threads wait.
var steps = []step{
	{"$ sudo ddtop", 2 * time.Second, nil},
	{"enter: the screen says what is wrong", 4 * time.Second, []string{}},
	{"!: all findings, and what to do", 3 * time.Second, []string{"!"}},
	{"w: whose code made the others wait", 3 * time.Second, []string{"w", "w", "w"}},
	{"tab, down, enter: the culprit", 3 * time.Second, []string{"w", "w", "w", "tab", "down", "down", "down", "enter"}},
}

// animation makes incident.svg, which shows an incident from the start of ddtop to the code that causes it.
func animation(ctx context.Context, folder string) (err error) {
	r, err := recording.Open(filepath.Join(folder, "recordings", "hog.ddtop"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	var pictures [][]byte
	for _, s := range steps {
		p, err := s.take(ctx, r)
		if err != nil {
			return fmt.Errorf("%s: %w", s.caption, err)
		}
		var svg bytes.Buffer
		if err := snapshot.ScreenSVG(&svg, p.Screen, p.Options); err != nil {
			return err
		}
		pictures = append(pictures, svg.Bytes())
	}
	text, err := animate(steps, pictures)
	if err != nil {
		return err
	}
	path := filepath.Join(folder, "incident.svg")
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return err
	}
	fmt.Println("wrote", path)
	return nil
}

// take makes the picture of a step.
func (s step) take(ctx context.Context, r *recording.Reader) (ui.Picture, error) {
	if s.keys != nil {
		return ui.TakePicture(ctx, ui.Options{Source: r, Window: window}, animationWidth, animationHeight, s.keys...)
	}
	began := time.Now().Add(-27 * time.Hour)
	first := []ui.Candidate{
		{PID: r.Process().PID, PPID: 1, Threads: 14, CPU: time.Hour, Ruby: "3.4.11", User: "app", Title: "order-service", Command: "ruby order-service.rb", Started: began},
		{PID: 4188, PPID: 1, Threads: 12, CPU: time.Hour, Ruby: "3.3.9", User: "app", Title: "sidekiq", Command: "sidekiq 7.3.9 shop [0 of 5 busy]", Started: began},
		{PID: 5002, PPID: 1, Threads: 2, CPU: time.Minute, Ruby: "3.4.11", User: "reports", Title: "nightly.rb", Command: "ruby /srv/reports/nightly.rb", Started: began},
	}
	later := append([]ui.Candidate(nil), first...)
	for i, share := range []time.Duration{980, 20, 0} {
		later[i].CPU += share * time.Millisecond
	}
	return ui.TakeListPicture(ctx, ui.Options{}, ui.Choosing{First: first, Verb: "attach"}, later, animationWidth, animationHeight)
}

// outerSVG matches the first tag of a picture. Its groups are the picture's width and height.
var outerSVG = regexp.MustCompile(`^<svg [^>]*width="(\d+)" height="(\d+)"[^>]*>`)

// animate puts pictures of the same size into one SVG. The SVG shows each picture for the time of its step, and after
// the last one it begins again. If a reader's browser asks for reduced motion, it shows only the second picture.
func animate(steps []step, pictures [][]byte) ([]byte, error) {
	var total time.Duration
	for _, s := range steps {
		total += s.length
	}
	var width, height int
	var style, body strings.Builder
	at := time.Duration(0)
	for i, picture := range pictures {
		head := outerSVG.FindSubmatch(picture)
		if head == nil {
			return nil, errors.New("a picture is no SVG with a size")
		}
		var w, h int
		if _, err := fmt.Sscan(string(head[1])+" "+string(head[2]), &w, &h); err != nil {
			return nil, err
		}
		if i > 0 && (w != width || h != height) {
			return nil, fmt.Errorf("picture %d is of another size: %dx%d, not %dx%d", i+1, w, h, width, height)
		}
		width, height = w, h
		percent := func(d time.Duration) float64 { return 100 * float64(d) / float64(total) }
		from, to := percent(at), percent(at+steps[i].length)
		// Each step has keyframes for the whole animation, from 0 % to 100 %. At 0 % only the first step is visible,
		// and at 100 % only the last.
		fmt.Fprintf(&style, "@keyframes s%d{0%%{visibility:%s}%.2f%%{visibility:visible}%.2f%%{visibility:%s}}\n.s%d{animation-name:s%d}\n",
			i, shown(i == 0), from, to, shown(i == len(pictures)-1), i, i)
		inner := bytes.TrimSuffix(bytes.TrimSpace(picture[len(head[0]):]), []byte("</svg>"))
		// Remove the titles, because a browser would show the title of each picture as a tooltip.
		inner = regexp.MustCompile(`<title>[^<]*</title>\n?`).ReplaceAll(inner, nil)
		fmt.Fprintf(&body, "<g class=\"s s%d\">\n%s<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" font-family=\"monospace\" font-size=\"15\" fill=\"#e6e9ef\">%s</text>\n</g>\n",
			i, inner, width/2, height+captionHeight*2/3, escaped(steps[i].caption))
		at += steps[i].length
	}
	text := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-label="ddtop, from the start to the culprit">
<title>ddtop, from the start to the culprit</title>
<style>
.s{visibility:hidden;animation-duration:%gs;animation-iteration-count:infinite;animation-timing-function:step-end}
%s@media (prefers-reduced-motion:reduce){.s{animation:none}.s1{visibility:visible}}
</style>
<rect width="%d" height="%d" rx="6" fill="#14171c"/>
%s</svg>
`, width, height+captionHeight, width, height+captionHeight, total.Seconds(), style.String(), width, height+captionHeight, body.String())
	if len(text) > maxAnimation {
		return nil, fmt.Errorf("it takes %d bytes, %d at most", len(text), maxAnimation)
	}
	return []byte(text), nil
}

func shown(is bool) string {
	if is {
		return "visible"
	}
	return "hidden"
}

// escaped returns a text with XML's special characters escaped.
func escaped(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}
