package cli

import (
	"regexp"
	"testing"
)

// TestMatchTwice: if the user gives --match twice, ddtop follows processes that match at least one of the expressions.
// It refuses an invalid expression at once.
func TestMatchTwice(t *testing.T) {
	var m matchFlag
	for _, text := range []string{"puma.*shop", "sidekiq|good_job"} {
		if err := m.Set(text); err != nil {
			t.Fatal(err)
		}
	}
	re := regexp.MustCompile(m.String())
	for title, want := range map[string]bool{"puma 6.4 [shop]": true, "sidekiq 7": true, "good_job": true, "puma [blog]": false} {
		if re.MatchString(title) != want {
			t.Errorf("%s follows %q: %v", m, title, !want)
		}
	}
	if err := m.Set("("); err == nil {
		t.Error("( is taken")
	}
}
