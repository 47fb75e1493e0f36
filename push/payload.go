package push

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// marshal returns a payload as the spool stores it: a line of JSON, then the body.
func (p *Payload) marshal() ([]byte, error) {
	head, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	return append(append(head, '\n'), p.Body...), nil
}

func unmarshal(data []byte) (*Payload, error) {
	head, body, ok := bytes.Cut(data, []byte{'\n'})
	if !ok {
		return nil, errFormat
	}
	p := new(Payload)
	if err := json.Unmarshal(head, p); err != nil {
		return nil, fmt.Errorf("%w: %w", errFormat, err)
	}
	p.Body = body
	return p, nil
}
