package widget

import (
	"regexp"
)

// ignoreCase is what a search begins with unless it holds an upper-case letter.
const ignoreCase = "(?i)"

func StripCase(s string) string {
	if len(s) >= len(ignoreCase) && s[:len(ignoreCase)] == ignoreCase {
		return s[len(ignoreCase):]
	}
	return s
}

// CompileSearch makes the expression of a search: without regard to case unless an upper-case letter is in it.
func CompileSearch(s string) (*regexp.Regexp, error) {
	for _, r := range s {
		if r >= 'A' && r <= 'Z' {
			return regexp.Compile(s)
		}
	}
	return regexp.Compile(ignoreCase + s)
}
