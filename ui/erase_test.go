package ui

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/style"
)

// shown is what one cell of a terminal shows: a character, and whether the cell has a background colour.
type shown struct {
	r        rune
	coloured bool
}

// bareTerminal imitates a terminal without background colour erase (terminfo(5), bce). If it erases cells, inserts
// cells, or adds cells by scrolling, these cells get the terminal's own background. It understands the sequences that
// Ultraviolet writes. It remembers sequences that it does not understand, so that the test can report them.
type bareTerminal struct {
	mu          sync.Mutex
	w, h        int
	cells       [][]shown
	x, y        int
	top, bottom int
	wrap        bool // true if the cursor is behind the last column
	coloured    bool
	last        rune
	rest        []byte // bytes of an incomplete sequence
	unknown     string
}

func newBareTerminal(w, h int) *bareTerminal {
	t := &bareTerminal{w: w, h: h, bottom: h - 1}
	for range h {
		t.cells = append(t.cells, t.blank())
	}
	return t
}

func (t *bareTerminal) blank() []shown {
	return slices.Repeat([]shown{{r: ' '}}, t.w)
}

// Write executes the output of a program on the terminal.
func (t *bareTerminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rest = append(t.rest, p...)
	for len(t.rest) > 0 {
		n := t.next(t.rest)
		if n == 0 {
			break
		}
		t.rest = t.rest[n:]
	}
	return len(p), nil
}

// next interprets one character or escape sequence and returns its length. It returns zero if the sequence is
// incomplete.
func (t *bareTerminal) next(b []byte) int {
	switch {
	case b[0] == '\x1b':
		return t.escape(b)
	case b[0] < ' ':
		t.control(b[0])
		return 1
	case !utf8.FullRune(b):
		return 0
	}
	r, n := utf8.DecodeRune(b)
	t.put(r)
	return n
}

func (t *bareTerminal) control(c byte) {
	switch c {
	case '\r':
		t.x, t.wrap = 0, false
	case '\n': // without an input, Bubble Tea writes for a terminal that maps \n to CR and LF
		t.x = 0
		t.down()
	case '\b':
		t.x, t.wrap = max(t.x-1, 0), false
	case '\t':
		t.x = min(t.x/8*8+8, t.w-1)
	default:
		t.unknown += fmt.Sprintf(" %q", c)
	}
}

func (t *bareTerminal) down() {
	t.wrap = false
	if t.y == t.bottom {
		t.scroll(t.top, 1)
	} else {
		t.y = min(t.y+1, t.h-1)
	}
}

// scroll moves the rows up by n, beginning with the row in the parameter from. A negative n moves them down.
func (t *bareTerminal) scroll(from, n int) {
	for ; n > 0; n-- {
		t.cells = slices.Insert(slices.Delete(t.cells, from, from+1), t.bottom, t.blank())
	}
	for ; n < 0; n++ {
		t.cells = slices.Insert(slices.Delete(t.cells, t.bottom, t.bottom+1), from, t.blank())
	}
}

func (t *bareTerminal) put(r rune) {
	w := canvas.RuneWidth(r)
	if w == 0 {
		return
	}
	if t.wrap {
		t.x = 0
		t.down()
	}
	t.last = r
	for i := range w {
		if t.x+i < t.w {
			t.cells[t.y][t.x+i] = shown{r, t.coloured}
		}
		r = 0
	}
	t.x += w
	if t.x >= t.w {
		t.x, t.wrap = t.w-1, true
	}
}

// escape interprets a sequence that begins with ESC and returns its length.
func (t *bareTerminal) escape(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case ']', 'P', '_': // OSC, DCS and APC sequences end with a terminator
		for i := 2; i < len(b); i++ {
			if b[i] == '\a' {
				return i + 1
			}
			if b[i] == '\\' && b[i-1] == '\x1b' {
				return i + 1
			}
		}
		return 0
	case 'M':
		if t.y == t.top {
			t.scroll(t.top, -1)
		} else {
			t.y = max(t.y-1, 0)
		}
		return 2
	case '[':
	case '7', '8', '=', '>':
		return 2
	default:
		t.unknown += fmt.Sprintf(" ESC %q", b[1])
		return 2
	}
	for i := 2; i < len(b); i++ {
		if b[i] >= '@' && b[i] <= '~' {
			t.csi(string(b[2:i]), b[i])
			return i + 1
		}
	}
	return 0
}

// csi executes a control sequence.
func (t *bareTerminal) csi(params string, final byte) {
	// sequences that change modes or ask the terminal for something
	if strings.ContainsAny(params, "?>=<$ ") || final == 'h' || final == 'l' {
		return
	}
	var n []int
	for _, p := range strings.Split(params, ";") {
		v, _ := strconv.Atoi(p)
		n = append(n, v)
	}
	one := max(n[0], 1)
	second := 1
	if len(n) > 1 {
		second = max(n[1], 1)
	}
	if final != 'm' {
		t.wrap = false
	}
	row := t.cells[t.y]
	switch final {
	case 'm':
		t.style(n)
	case 'H', 'f':
		t.y, t.x = min(one, t.h)-1, min(second, t.w)-1
	case 'A':
		t.y = max(t.y-one, 0)
	case 'B':
		t.y = min(t.y+one, t.h-1)
	case 'C':
		t.x = min(t.x+one, t.w-1)
	case 'D':
		t.x = max(t.x-one, 0)
	case 'G', '`':
		t.x = min(one, t.w) - 1
	case 'd':
		t.y = min(one, t.h) - 1
	case 'I':
		t.x = min((t.x/8+one)*8, t.w-1)
	case 'Z':
		t.x = max((t.x+7)/8-one, 0) * 8
	case 'X':
		copy(row[t.x:min(t.x+one, t.w)], t.blank())
	case 'K':
		from, to := t.x, t.w
		switch n[0] {
		case 1:
			from, to = 0, t.x+1
		case 2:
			from = 0
		}
		copy(row[from:to], t.blank())
	case 'J':
		for y := range t.h {
			switch {
			case n[0] == 2 || n[0] == 0 && y > t.y || n[0] == 1 && y < t.y:
				t.cells[y] = t.blank()
			case n[0] == 0 && y == t.y:
				copy(row[t.x:], t.blank())
			case n[0] == 1 && y == t.y:
				copy(row[:t.x+1], t.blank())
			}
		}
	case 'P':
		one = min(one, t.w-t.x)
		copy(row[t.x:], append(slices.Clone(row[t.x+one:]), t.blank()[:one]...))
	case '@':
		one = min(one, t.w-t.x)
		copy(row[t.x:], append(t.blank()[:one], row[t.x:t.w-one]...))
	case 'L':
		t.scroll(t.y, -one)
	case 'M':
		t.scroll(t.y, one)
	case 'S':
		t.scroll(t.top, one)
	case 'T':
		t.scroll(t.top, -one)
	case 'r':
		t.top, t.bottom = one-1, t.h-1
		if len(n) > 1 && n[1] > 0 {
			t.bottom = n[1] - 1
		}
		t.x, t.y = 0, 0
	case 'b':
		for range one {
			t.put(t.last)
		}
	case 'u', 'q', 'c', 'n', 't': // sequences for the keyboard, the cursor's shape, and questions to the terminal
	default:
		t.unknown += fmt.Sprintf(" CSI %s%c", params, final)
	}
}

func (t *bareTerminal) style(n []int) {
	for i := 0; i < len(n); i++ {
		switch v := n[i]; {
		case v == 38 || v == 48:
			t.coloured = t.coloured || v == 48
			if i+1 < len(n) && n[i+1] == 2 {
				i += 4
			} else {
				i += 2
			}
		case v >= 40 && v <= 47 || v >= 100 && v <= 107:
			t.coloured = true
		case v == 0 || v == 49:
			t.coloured = false
		}
	}
}

// differs describes the first cell of the terminal that differs from want. It returns "" if no cell differs.
func (t *bareTerminal) differs(want [][]shown) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.unknown != "" {
		return "unknown:" + t.unknown
	}
	for y, row := range want {
		for x, c := range row {
			if got := t.cells[y][x]; got != c {
				return fmt.Sprintf("row %d, column %d shows %q, coloured %v; want %q, %v", y+1, x+1, got.r, got.coloured, c.r, c.coloured)
			}
		}
	}
	return ""
}

// shownBy returns the cells that a terminal must show for a Model's picture.
func shownBy(m *Model) [][]shown {
	out := make([][]shown, m.grid.H)
	for y := range out {
		for x := range m.grid.W {
			c := m.grid.At(x, y)
			out[y] = append(out[y], shown{c.Rune, c.Style.BG.IsSet()})
		}
	}
	return out
}

// pictures is a Bubble Tea program for the test. It shows the last picture that was sent to it.
type pictures struct {
	grid *canvas.Grid
	n    int
}

func (p *pictures) Init() tea.Cmd { return nil }

func (p *pictures) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	if next, ok := msg.(*canvas.Grid); ok {
		p.grid, p.n = next, p.n+1
	}
	return p, nil
}

func (p *pictures) picture() (*canvas.Grid, int) { return p.grid, p.n }

func (p *pictures) View() tea.View { return paintedView("") }

// TestATerminalWithoutColouredErasing: every cell is shown with its background colour, also after one picture replaces
// another. To colour cells, ddtop must write them and not erase them, because GNU screen erases without colour.
func TestATerminalWithoutColouredErasing(t *testing.T) {
	const w, h = 100, 40
	s := newScreen(t, w, h, demosource.Options{Length: 5 * time.Second, HTTP: 30, ExtraNames: hostileNames}, scene.Options{})
	type frame struct {
		name  string
		grid  *canvas.Grid
		cells [][]shown
	}
	var frames []frame
	for _, theme := range []string{"dark", "light"} {
		look, err := style.ThemeByName(theme)
		if err != nil {
			t.Fatal(err)
		}
		s.model.SetTheme(look)
		for _, keys := range [][]string{nil, {"I"}, {"tab", "down"}, {"down", "down"}, {"enter"}, {"f"}, {"esc", "f"}, {"o"}, {"4"}, {"down", "down"},
			{"i"}, {"i", "/", "R", "e", "enter"}, {"esc", "esc", "3"}, {"left", "left"}, {"2"}, {"enter"}, {"?"}, {"esc", "5"}, {"6"}, {"7"}, {"1"},
			{"space"}, {"[", "["}, {"P"}, {"P", "space"}, {"I", "o"}} {
			s.press(keys...)
			grid := new(canvas.Grid)
			grid.Copy(&s.model.grid)
			frames = append(frames, frame{fmt.Sprint(theme, " after ", keys), grid, shownBy(s.model)})
		}
	}
	for _, term := range []string{"screen-256color", "xterm-256color", "tmux-256color", "linux"} {
		t.Run(term, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			terminal := newBareTerminal(w, h)
			p, paint := newProgram(ctx, &pictures{grid: new(canvas.Grid)}, terminal, tea.WithInput(nil),
				tea.WithWindowSize(w, h), tea.WithEnvironment([]string{"TERM=" + term, "COLORTERM=truecolor", "TTY_FORCE=1"}))
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				if err := paint.run(p); ctx.Err() == nil {
					t.Error("the screen ended early:", err)
				}
			}()
			defer func() { stop(); <-ended }()
			for _, f := range frames {
				p.Send(f.grid)
				wrong := terminal.differs(f.cells)
				for end := time.Now().Add(patience); wrong != "" && time.Now().Before(end); wrong = terminal.differs(f.cells) {
					time.Sleep(time.Millisecond)
				}
				if wrong != "" {
					t.Fatalf("%s: %s", f.name, wrong)
				}
			}
		})
	}
}
