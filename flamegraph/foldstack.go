package flamegraph

import (
	"slices"
	"strings"
)

// StackRow is a row of a stack in which runs of frames that are not the program's own are folded: the frames From to To-1. Of one
// frame it is that frame.
type StackRow struct {
	From, To int
	// Text is what the row says of several frames; "" of one.
	Text string
}

// FoldStack folds a stack of n frames, innermost first, as Fold does a tree: own code stays, what it calls in C stays, and so does the
// innermost frame, which says what is done now. frame tells whether a frame is own, and what it is of otherwise
// (sampler.Frame.Library).
func FoldStack(n int, frame func(i int) (own bool, library string)) []StackRow {
	rows := make([]StackRow, 0, n)
	from := -1 // where a run begins
	var libraries []string
	end := func(to int) {
		if from >= 0 && to-from >= minRun {
			slices.Reverse(libraries) // the outermost first
			rows = append(rows, StackRow{from, to, (&run{to - from, names(libraries)}).text()})
		} else if from >= 0 {
			for ; from < to; from++ {
				rows = append(rows, StackRow{From: from, To: from + 1})
			}
		}
		from, libraries = -1, nil
	}
	for i := range n {
		own, library := frame(i)
		if !own && i > 0 && library == coreLibrary && i+1 < n {
			own, _ = frame(i + 1)
		}
		if own || i == 0 {
			end(i)
			rows = append(rows, StackRow{From: i, To: i + 1})
			continue
		}
		if from < 0 {
			from = i
		}
		libraries = append(libraries, library)
	}
	end(n)
	return rows
}

// names are libraries, each once in their order; that of Ruby's core only where there are no others.
func names(libraries []string) []string {
	var out []string
	for _, l := range libraries {
		if l != coreLibrary && !slices.Contains(out, l) {
			out = append(out, l)
		}
	}
	if out == nil {
		return []string{coreLibrary}
	}
	return out
}

// Libraries are what the frames of a run are of, those of the heaviest way through it; "" where n is no run.
func (n *Node) Libraries() string {
	if n.run == nil {
		return ""
	}
	return strings.Join(n.run.libraries, ", ")
}
