package flamegraph

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestFoldStack(t *testing.T) {
	for stack, want := range map[string]string{
		"":                                      "",
		"A B C D":                               "A B C D",
		"a":                                     "a",
		"ruby a b c D":                          "ruby ⋯ 3 frames: c, b, a D",
		"ruby pg pg pg Order ruby Orders p p p": "ruby ⋯ 3 frames: pg Order ruby Orders ⋯ 3 frames: p",
		"ruby a b D":                            "ruby a b D",
		"a ruby ruby ruby":                      "a ⋯ 3 frames: ruby",
		"a ruby B a a ruby c":                   "a ruby B ⋯ 4 frames: c, a",
		"B a a a ruby":                          "B ⋯ 4 frames: a",
	} {
		frames := strings.Fields(stack)
		var got []string
		next := 0
		for _, r := range FoldStack(len(frames), func(i int) (bool, string) {
			return frames[i] == strings.ToUpper(frames[i][:1])+frames[i][1:], frames[i]
		}) {
			if r.From != next || r.To <= r.From || r.Text == "" && r.To != r.From+1 {
				t.Errorf("%s: %+v after %d", stack, r, next)
			}
			next = r.To
			if r.Text == "" {
				got = append(got, frames[r.From])
			} else {
				got = append(got, r.Text)
			}
		}
		if s := strings.Join(got, " "); s != want || next != len(frames) {
			t.Errorf("%s: %s, want %s", stack, s, want)
		}
	}
	if got := fmt.Sprint(names([]string{"ruby", "a", "ruby", "b", "a"})); got != "[a b]" || !slices.Equal(names(nil), []string{"ruby"}) {
		t.Error(got)
	}
}
