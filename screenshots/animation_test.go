package main

import (
	"bytes"
	"encoding/xml"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// TestAnimation: the animation in the README is well-formed and small. It has no script and loads no other file. It
// shows all steps one after the other within 15 seconds.
func TestAnimation(t *testing.T) {
	text, err := os.ReadFile("incident.svg")
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > maxAnimation {
		t.Errorf("it takes %d bytes", len(text))
	}
	groups := 0
	for d := xml.NewDecoder(bytes.NewReader(text)); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		if name := start.Name.Local; name == "script" || name == "image" || name == "foreignObject" {
			t.Errorf("it has a <%s>", name)
		}
		for _, a := range start.Attr {
			if strings.HasPrefix(a.Name.Local, "on") || a.Name.Local == "href" {
				t.Errorf("it has %s=%q", a.Name.Local, a.Value)
			}
			if a.Name.Local == "class" && strings.HasPrefix(a.Value, "s s") {
				groups++
			}
		}
	}
	if groups != len(steps) || !bytes.Contains(text, []byte("animation-duration:15s")) {
		t.Errorf("it has %d steps, not %d, or takes other than 15 s", groups, len(steps))
	}
}

// TestAnimate: in the animation, each step is visible for its share of the time. animate refuses pictures of different
// sizes.
func TestAnimate(t *testing.T) {
	small := []byte("<svg xmlns=\"x\" width=\"10\" height=\"20\">\n<title>a</title>\n<g/>\n</svg>\n")
	two := []step{{caption: "a <b>", length: time.Second}, {caption: "c", length: 3 * time.Second}}
	text, err := animate(two, [][]byte{small, small})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"animation-duration:4s", "a &lt;b&gt;", "@keyframes s0{0%{visibility:visible}0.00%{visibility:visible}25.00%{visibility:hidden}}",
		"@keyframes s1{0%{visibility:hidden}25.00%{visibility:visible}100.00%{visibility:visible}}", `height="54"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("it lacks %q:\n%s", want, text)
		}
	}
	if _, err := animate(two, [][]byte{small, bytes.ReplaceAll(small, []byte("20"), []byte("30"))}); err == nil {
		t.Error("pictures of two sizes are taken")
	}
}
