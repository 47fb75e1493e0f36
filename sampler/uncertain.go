package sampler

// UncertainMark is appended to the label of an uncertain frame, in outputs that add up weights by label. So the weights
// of the uncertain and the certain frame are not added together.
const UncertainMark = " [uncertain]"

// Doubtful reports whether it is uncertain which function the frame shows. It is false if only the line is uncertain.
func (f *Frame) Doubtful() bool { return f.Uncertain && !f.UncertainLine }

// Mark returns the text to append to the frame's name: UncertainMark, or "" if the frame can be trusted.
func (f *Frame) Mark() string {
	if f.Doubtful() {
		return UncertainMark
	}
	return ""
}

// Marked returns the frame for file formats that have no field for Uncertain. If the frame's names cannot be trusted,
// they end with UncertainMark. So the frame's weight is not added to another method's. A line that cannot be trusted
// becomes 0, which these formats read as no line. A negative line, which Ruby's eval accepts, also becomes 0. Otherwise
// callgrind would read -4 as "four lines up".
func (f Frame) Marked() Frame {
	f.Label, f.Name = f.Label+f.Mark(), f.Name+f.Mark()
	if f.Uncertain {
		f.Line = 0
	}
	f.Line, f.FirstLine = max(f.Line, 0), max(f.FirstLine, 0)
	return f
}

// Marked returns a Dictionary with the same entries. The method Frame of this Dictionary changes each frame as
// Frame.Marked does. Every export of stacks uses it. Recordings and the JSON of dumps do not, because they have a field
// for Uncertain.
func (d *Dictionary) Marked() *Dictionary {
	if d == nil || d.marks {
		return d
	}
	v := d.View()
	v.marks = true
	return v
}
