package canvas

import "testing"

// TestCutNameKeepsTheNumber: CutName keeps the number or the last word of a name. The names of similar threads or
// processes differ only in this part. Without it they would look the same.
func TestCutNameKeepsTheNumber(t *testing.T) {
	for _, test := range []struct {
		name string
		w    int
		want string
	}{
		{"puma srv tp 003", 15, "puma srv tp 003"},
		{"puma srv tp 003", 11, "puma…tp 003"},
		{"puma srv tp 003", 10, "pum…tp 003"},
		{"puma srv tp 003", 8, "puma…003"},
		{"puma srv tp 003", 4, "…003"},
		{"puma srv tp 003", 2, "…3"},
		{"processor 12", 9, "proces…12"},
		{"worker-1 (12)", 10, "worke…(12)"},
		{"worker-12", 7, "work…12"},
		{"puma w12", 6, "pu…w12"},
		{"the reaper", 6, "the r…"},
		{"puma srv threadpool reaper", 16, "puma srv…reaper"},
		{"puma srv threadpool trimmer", 13, "puma…trimmer"},
		{"heartbeat", 5, "hear…"},
		{"sidekiq [3 of 5 busy]", 14, "sidekiq [3 of…"},
		{"sidekiq 3/5 quiet", 14, "sidekiq 3/5 q…"},
		{"12345678", 5, "…5678"},
		{"", 3, ""},
		{"x1", 0, ""},
	} {
		if got := CutName(test.name, test.w); got != test.want || Width(got) > test.w && test.w > 0 {
			t.Errorf("%q in %d columns is %q, want %q", test.name, test.w, got, test.want)
		}
	}
}
