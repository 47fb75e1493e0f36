package ui

// selectedStack returns the stack of the selected frame or thread.
func selectedStack(m *Model) (title string, lines []string) {
	return m.current().Stack(&m.Scene)
}
