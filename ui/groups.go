package ui

import (
	"strings"
	"unicode"
)

// pattern turns a thread's name into the name of the pool it belongs to: runs of digits, and the punctuation that
// leads to them, are what distinguishes the members of a pool ("http-1" and "http-12" are "http", "puma srv tp 003" is
// "puma srv tp", "worker[2]" is "worker"). A name that would lose everything keeps its digits' place as "#".
func pattern(name string) string {
	var b strings.Builder
	inDigits := false
	for _, r := range name {
		if unicode.IsDigit(r) {
			if !inDigits {
				b.WriteByte('#')
			}
			inDigits = true
			continue
		}
		inDigits = false
		b.WriteRune(r)
	}
	p := b.String()
	trimmed := strings.TrimRight(p, "#-_:. /()[]")
	if trimmed == "" {
		return p
	}
	// Digits in the middle ("worker-3 of 8") stay as a place holder.
	return trimmed
}

// group is a row of the timeline that stands for one or several threads: either one thread or, with at least two
// members whose names follow one pattern, a pool.
type group struct {
	// name is the pool's pattern; "" for a thread on its own.
	name    string
	members []int // indexes into the threads
}

// minGroup is how many threads make a pool.
const minGroup = 2

// groupThreads sorts threads (given by their names, in a stable order) into groups, each at the place of its first
// member. Threads that are alone in their pattern stay alone. Names that hold no digit never make a pool with a
// different name, but twins of the same name do.
func groupThreads(names []string) []group {
	byPattern := make(map[string]int, len(names))
	out := make([]group, 0, len(names))
	for i, n := range names {
		p := pattern(n)
		at, ok := byPattern[p]
		if !ok {
			at = len(out)
			byPattern[p] = at
			out = append(out, group{name: p})
		}
		out[at].members = append(out[at].members, i)
	}
	for i := range out {
		if len(out[i].members) < minGroup {
			out[i].name = ""
		}
	}
	return out
}
