package processcontext

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// field and text return messages in the format of protocol buffers.
func field(number int, content []byte) []byte {
	b := binary.AppendUvarint(nil, uint64(number)<<3|2)
	return append(binary.AppendUvarint(b, uint64(len(content))), content...)
}

func text(key, value string) []byte {
	return slices.Concat(field(pairKey, []byte(key)), field(pairValue, field(valueString, []byte(value))))
}

// TestTexts: a value with control characters or invalid bytes, or a value that is too long, is left out. If an
// attribute occurs several times, the last one is used. The attribute for the environment (Context.Env) has an old and
// a new name. If both are present, the new one is used.
func TestTexts(t *testing.T) {
	var c Context
	for _, a := range []Attribute{{keyService, "first"}, {keyService, "shop"}, {keyVersion, "a\x1b[31m"}, {keyHost, "\xff"}, {keyContainer, strings.Repeat("x", maxText+1)},
		{keyRuntimeID, ""}, {"", "x"}, {keyEnv, "new"}, {keyOldEnv, "old"}, {keyTracer, "a\u202eb"}} {
		c.set(a.Key, a.Value)
	}
	if c.Service != "shop" || c.Env != "new" || c.Version+c.Host+c.ContainerID+c.RuntimeID+c.Tracer != "" || len(c.Attributes) != 3 {
		t.Errorf("%+v", c)
	}
	for i := range 3 * maxAttributes {
		c.set(strings.Repeat("k", i+1), "v")
	}
	if len(c.Attributes) != maxAttributes {
		t.Errorf("%d attributes", len(c.Attributes))
	}
}

// check checks what must be true of every Context.
func check(t *testing.T, c Context) {
	texts := []string{c.Service, c.Env, c.Version, c.RuntimeID, c.Host, c.ContainerID, c.Tracer, c.TracerVersion, c.TracerLanguage, c.Threads.Version}
	texts = slices.Concat(texts, c.Tags, c.Threads.Keys)
	for _, a := range c.Attributes {
		texts = append(texts, a.Key, a.Value)
	}
	if len(c.Attributes) > maxAttributes || len(c.Tags) > maxAttributes || len(c.Threads.Keys) > maxKeys {
		t.Errorf("%d attributes, %d tags, %d keys", len(c.Attributes), len(c.Tags), len(c.Threads.Keys))
	}
	for _, s := range texts {
		if len(s) > maxText || !utf8.ValidString(s) || strings.ContainsAny(s, "\x00\n\x1b") {
			t.Errorf("a text is %q", s)
		}
	}
}

func FuzzProcessContext(f *testing.F) {
	f.Add(field(1, field(1, []byte("\x0a\x0cservice.name\x12\x06\x0a\x04shop"))))
	f.Add(field(2, []byte("\x0a\x1dthreadlocal.attribute_key_map\x12\x08\x2a\x06\x0a\x04\x0a\x02ab")))
	f.Add([]byte("\x0a\xff\xff\xff\xff\x0f"))
	f.Add([]byte("\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80"))
	f.Add(slices.Repeat([]byte("\x0a\x00"), 1000))
	f.Add([]byte("\x0b\x0c"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := parseProcessContext(b); err == nil {
			check(t, c)
		}
	})
}

func FuzzTracerInfo(f *testing.F) {
	f.Add([]byte("\x82\xacservice_name\xa4shop\xaaruntime_id\xd9\x02id"))
	f.Add([]byte("\x81\xa1x\xdd\xff\xff\xff\xff"))
	f.Add([]byte("\xdf\xff\xff\xff\xff"))
	f.Add(slices.Concat([]byte("\x81\xa1x"), slices.Repeat([]byte{0x91}, 10000)))
	f.Add([]byte("\x81\xa1x\xc6\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := parseTracerInfo(b); err == nil {
			check(t, c)
		}
	})
}
