package push

import (
	"fmt"
	"slices"
	"strings"
)

// Tag is a fact about a process, such as service: shop.
type Tag struct{ Key, Value string }

// Tags are a process's tags in the order in which they were added. Each key occurs once.
type Tags []Tag

// Get returns the value of a key, or "" if there is no tag with this key.
func (t Tags) Get(key string) string {
	for _, tag := range t {
		if tag.Key == key {
			return tag.Value
		}
	}
	return ""
}

// With returns the tags together with one more tag. It returns the tags unchanged if the key already exists or the
// value is empty.
func (t Tags) With(key, value string) Tags {
	if value == "" || t.Get(key) != "" {
		return t
	}
	return append(slices.Clip(t), Tag{key, value})
}

// maxTag limits the length of a key, and of a value, in bytes.
const maxTag = 200

// ParseTag parses "key:value". A key may have letters, digits, "_", "-", "." and "/". A value may not have control
// characters. It may not have commas either, because destinations separate tags by commas.
func ParseTag(text string) (Tag, error) {
	key, value, ok := strings.Cut(text, ":")
	switch {
	case !ok || key == "" || value == "":
		return Tag{}, fmt.Errorf("%q is not key:value", text)
	case len(key) > maxTag || len(value) > maxTag:
		return Tag{}, fmt.Errorf("%.20q… is longer than %d bytes", text, maxTag)
	case strings.ContainsFunc(key, func(r rune) bool { return !isKeyRune(r) }):
		return Tag{}, fmt.Errorf("the key of %q is not letters, digits, _, -, . and / alone", text)
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f || r == ',' }):
		return Tag{}, fmt.Errorf("the value of %q holds a comma or a control character", text)
	}
	return Tag{key, value}, nil
}

func isKeyRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./", r)
}
