package scene

// Message is what the last key has to say; the next key takes it away.
type Message struct {
	Text    string
	Problem bool     // it tells of a failure
	Hint    bool     // nothing was done: it says what could be
	Paths   []string // in text
}

func (l *Message) Say(text string, paths ...string) { *l = Message{Text: text, Paths: paths} }

func (l *Message) Tell(text string) { *l = Message{Text: text, Hint: true} }

func (l *Message) Fail(text string, paths ...string) {
	*l = Message{Text: text, Problem: true, Paths: paths}
}

func (l *Message) Clear() { *l = Message{} }
