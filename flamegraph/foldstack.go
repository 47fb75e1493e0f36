package flamegraph

import (
	"slices"
	"strings"
)

// StackRow is a row of a folded stack. It shows the frames with the numbers From to To-1. Several consecutive frames
// outside the program's own code (a run) become one row. Each other row is a single frame.
type StackRow struct {
	From, To int
	// Text is the text of a row for several frames. It is empty for a single frame.
	Text string
}

// FoldStack folds a stack of n frames, innermost first, as Fold folds a tree. Three kinds of frames are not folded: own
// code, the C functions that own code calls, and the innermost frame, which is the current activity. The function frame
// reports whether frame number i is own code. If the frame is not own code, the result library is its
// sampler.Frame.Library.
func FoldStack(n int, frame func(i int) (own bool, library string)) []StackRow {
	rows := make([]StackRow, 0, n)
	from := -1 // where a run of frames outside the program's own code begins
	var libraries []string
	end := func(to int) {
		if from >= 0 && to-from >= minRun {
			slices.Reverse(libraries) // now the outermost library comes first
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

// names joins the names of libraries in their order, without repetitions. Ruby's core is named only if there is no
// other library.
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

// Libraries returns the libraries of the frames on the heaviest path through a run, a row of folded frames. It is empty
// if n is no run.
func (n *Node) Libraries() string {
	if n.run == nil {
		return ""
	}
	return strings.Join(n.run.libraries, ", ")
}
