package ui

// message is what the last key has to say; the next key takes it away.
type message struct {
	text    string
	problem bool     // it tells of a failure
	hint    bool     // nothing was done: it says what could be
	paths   []string // in text
}

func (l *message) say(text string, paths ...string) { *l = message{text: text, paths: paths} }

func (l *message) tell(text string) { *l = message{text: text, hint: true} }

func (l *message) fail(text string, paths ...string) {
	*l = message{text: text, problem: true, paths: paths}
}

func (l *message) clear() { *l = message{} }
