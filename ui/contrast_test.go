package ui

import (
	"fmt"
	"slices"
	"testing"
	"unicode"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/timeline"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/style"
	"github.com/ddtop/ddtop/ui/widget"
)

// profiles are the messages with which Bubble Tea reports a terminal with few colours.
var profiles = []tea.ColorProfileMsg{{Profile: 3}, {Profile: 4}}

func TestTheProfilesAreThoseMeant(t *testing.T) {
	for i, want := range []string{"ANSI", "ANSI256"} {
		if got := profiles[i].String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := (tea.ColorProfileMsg{Profile: 5}).String(); got != style.TrueColor {
		t.Errorf("%s, want %s", got, style.TrueColor)
	}
}

// TestTextIsLegibleInFewColors: on terminals with few colours, no text has the same colour as its background. The test
// checks every view in every theme.
func TestTextIsLegibleInFewColors(t *testing.T) {
	rs := make(recordings)
	for _, v := range pageViews {
		rs.picture(t, v.recording, scene.Options{}, 80, 24)
		for _, theme := range style.Themes[1:] {
			for _, profile := range profiles {
				m, err := NewModel(rs[v.recording], scene.Options{Theme: theme})
				if err != nil {
					t.Fatal(err)
				}
				s := &screen{t, m, rs[v.recording]}
				m.Update(profile)
				s.resize(120, 40)
				s.press(v.keys...)
				ground := profile.Convert(m.Theme.Background)
				for y := range m.grid.H {
					for x := range m.grid.W {
						c := m.grid.At(x, y)
						if c.Rune == ' ' || c.Rune == 0 || c.Style.FG == c.Style.BG || !c.Style.FG.IsSet() {
							continue
						}
						at := ground
						if c.Style.BG.IsSet() {
							at = profile.Convert(c.Style.BG)
						}
						if profile.Convert(c.Style.FG) == at {
							t.Fatalf("%s, %s, %s: %q at %d,%d is %s on %s: one colour", v.name, theme, profile, c.Rune, x, y, c.Style.FG.Hex(), c.Style.BG.Hex())
						}
					}
				}
			}
		}
	}
}

// TestStatesCanBeToldApart: each state of a thread has its own letter, in every theme and for every number of colours.
// States that mean trouble also have different colours. The colour of the state Running differs from the background.
func TestStatesCanBeToldApart(t *testing.T) {
	for _, name := range style.Themes[1:] {
		theme, err := style.ThemeByName(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, profile := range append(profiles, tea.ColorProfileMsg{Profile: 5}) {
			theme, weak := theme, 1.0
			if profile.String() == style.Colors16 {
				theme, weak = theme.In16(), 0.4 // a terminal with 16 colours has no shades
			}
			look := func(s gvl.State) (rune, string) {
				c := timeline.Cell{Dominant: s, Share: weak, SpanNS: 1}
				c.NS[s] = 1
				r, st := theme.StateCell(&c, false, nil)
				return r, fmt.Sprint(profile.Convert(st.BG))
			}
			for a := range gvl.NumStates {
				for b := range a {
					ra, ca := look(gvl.State(a))
					rb, cb := look(gvl.State(b))
					if ra == rb {
						t.Errorf("%s, %s: %s and %s are both %q", name, profile, gvl.State(a), gvl.State(b), ra)
					}
					trouble := func(s gvl.State) bool { return !s.Idle() && s != gvl.Unknown }
					if ground := fmt.Sprint(profile.Convert(theme.Background)); gvl.State(a) == gvl.Running && ca == ground {
						t.Errorf("%s, %s: a block of running can't be seen", name, profile)
					}
					if trouble(gvl.State(a)) && trouble(gvl.State(b)) && ca == cb {
						t.Errorf("%s, %s: %s and %s have one colour", name, profile, gvl.State(a), gvl.State(b))
					}
				}
			}
		}
	}
}

// TestFewColoursKeepTheirMeaning: when the theme's colours are converted for terminals with 256 colours, grey stays
// grey. Every converted colour is one of these 256 colours.
func TestFewColoursKeepTheirMeaning(t *testing.T) {
	profile := profiles[1]
	same := func(c canvas.Color) bool {
		r, g, b, _ := profile.Convert(c).RGBA()
		return canvas.RGB(r>>8<<16|g>>8<<8|b>>8) == c
	}
	for _, name := range style.Themes[1:] {
		theme, err := style.ThemeByName(name)
		if err != nil {
			t.Fatal(err)
		}
		for what, c := range map[string]canvas.Color{"text": theme.Text, "dim": theme.Dim, "faint": theme.Faint, "line": theme.Line,
			"parked": theme.States[gvl.Parked], "sleeping": theme.States[gvl.Sleeping], "unknown": theme.States[gvl.Unknown],
			"half asleep": theme.Shade(theme.States[gvl.Sleeping], 0.5)} {
			r, g, b := style.In256(c).Components()
			if r != g || g != b {
				t.Errorf("%s: %s comes out as %s", name, what, style.In256(c).Hex())
			}
		}
		for r := 0; r < 256; r += 15 {
			for g := 0; g < 256; g += 15 {
				for b := 0; b < 256; b += 15 {
					if c := style.In256(canvas.RGB(uint32(r<<16 | g<<8 | b))); !same(c) {
						t.Fatalf("#%02x%02x%02x becomes %s, which is none of the 256", r, g, b, c.Hex())
					}
				}
			}
		}
		seen := make(map[canvas.Color]int)
		for p, c := range theme.Flame {
			if q, ok := seen[style.In256(c)]; ok {
				t.Errorf("%s: %d and %d of the flamegraph come out as one colour", name, p, q)
			}
			seen[style.In256(c)] = p
		}
	}
}

// TestTextOfEveryPictureIsLegible measures the contrast of each letter and digit with its background, in all views of
// all themes. Text must have the contrast of WCAG 2.1, criterion 1.4.3. Letters in cells of the timeline, and faint
// text, must have the lower contrast of criterion 1.4.11.
func TestTextOfEveryPictureIsLegible(t *testing.T) {
	rs := make(recordings)
	for _, name := range style.Themes[1:] {
		for _, v := range slices.Concat(shotViews, pageViews) {
			rs.picture(t, v.recording, scene.Options{}, 80, 24)
			m, err := NewModel(rs[v.recording], scene.Options{Theme: name})
			if err != nil {
				t.Fatal(err)
			}
			s := &screen{t, m, rs[v.recording]}
			s.resize(120, 40)
			s.press(v.keys...)
			cells := make(map[canvas.Color]bool) // the background colours of the timeline's cells
			for _, c := range m.Theme.States {
				for i := range style.ShadeSteps + 1 {
					cells[m.Theme.Shade(c, m.Theme.Weakest+(1-m.Theme.Weakest)*float64(i)/style.ShadeSteps)] = true
				}
			}
			for _, c := range m.Theme.Owners {
				for i := range style.ShadeSteps + 1 {
					cells[m.Theme.Shade(c, widget.LaneStrength(float64(i)/style.ShadeSteps))] = true
				}
			}
			bad := make(map[canvas.Style]bool)
			for y := range m.grid.H {
				for x := range m.grid.W {
					c := m.grid.At(x, y)
					st := c.Style
					if !st.FG.IsSet() || !unicode.IsLetter(c.Rune) && !unicode.IsDigit(c.Rune) {
						continue
					}
					if !st.BG.IsSet() {
						st.BG = m.Theme.Background
					}
					least := style.Legible
					if cells[st.BG] || st.FG == m.Theme.Faint {
						least = style.Graphic
					}
					if got := st.FG.Contrast(st.BG); got < least && !bad[st] {
						bad[st] = true
						t.Errorf("%s, %s: %q in row %d, column %d is %s on %s, a contrast of %.1f", name, v.name, c.Rune, y+1, x+1, st.FG.Hex(), st.BG.Hex(), got)
					}
				}
			}
		}
	}
}
