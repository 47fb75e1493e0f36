package ui

// message is what the last key has to say; the next key takes it away.
type message struct {
	text    string
	problem bool     // it tells of a failure
	paths   []string // in text
}

func (l *message) say(text string, paths ...string) { *l = message{text: text, paths: paths} }

func (l *message) fail(text string, paths ...string) {
	*l = message{text: text, problem: true, paths: paths}
}

func (l *message) clear() { *l = message{} }
