package attach

import (
	"errors"
	"slices"
	"testing"
)

// TestFindRubyModule: which of a process's files is taken for its Ruby.
func TestFindRubyModule(t *testing.T) {
	refuse := errors.New("may not be opened")
	for name, test := range map[string]struct {
		paths []string
		exe   string
		// ruby are the files that define ruby_version, refused those that can't be opened.
		ruby, refused []string
		want          string
		program       bool
		err           error
	}{
		"library":                  {paths: []string{"/bin/ruby", "/lib/libc.so.6", "/lib/libruby.so.3.3"}, exe: "/bin/ruby", ruby: []string{"/lib/libruby.so.3.3"}, want: "/lib/libruby.so.3.3"},
		"static":                   {paths: []string{"/bin/ruby", "/lib/libc.so.6"}, exe: "/bin/ruby", ruby: []string{"/bin/ruby"}, want: "/bin/ruby"},
		"static, named otherwise":  {paths: []string{"/bin/app"}, exe: "/bin/app", ruby: []string{"/bin/app"}, want: "/bin/app"},
		"embedded":                 {paths: []string{"/bin/nginx", "/lib/passenger.so.1"}, exe: "/bin/nginx", ruby: []string{"/lib/passenger.so.1"}, want: "/lib/passenger.so.1"},
		"emulated, static":         {paths: []string{"/arm64/bin/ruby3.3", "/bin/qemu-aarch64-static"}, exe: "/bin/qemu-aarch64-static", ruby: []string{"/arm64/bin/ruby3.3"}, want: "/arm64/bin/ruby3.3"},
		"emulated, library":        {paths: []string{"/arm64/bin/ruby", "/arm64/lib/libruby.so.3.3", "/bin/qemu-aarch64"}, exe: "/bin/qemu-aarch64", ruby: []string{"/arm64/lib/libruby.so.3.3"}, want: "/arm64/lib/libruby.so.3.3"},
		"the wrong library":        {paths: []string{"/bin/ruby", "/lib/libruby.so.3.3"}, exe: "/bin/ruby", ruby: []string{"/bin/ruby"}, want: "/bin/ruby"},
		"none":                     {paths: []string{"/bin/sleep", "/lib/libc.so.6"}, exe: "/bin/sleep", program: true},
		"none, named ruby":         {paths: []string{"/bin/qemu-aarch64", "/arm64/bin/ruby"}, exe: "/bin/qemu-aarch64", program: true},
		"library can't be opened":  {paths: []string{"/bin/ruby", "/lib/libruby.so.3.3"}, exe: "/bin/ruby", refused: []string{"/lib/libruby.so.3.3"}, program: true, err: refuse},
		"program can't be opened":  {paths: []string{"/bin/ruby"}, exe: "/bin/ruby", refused: []string{"/bin/ruby"}, err: refuse},
		"not TruffleRuby's":        {paths: []string{"/bin/java", "/lib/librubyvm.so"}, exe: "/bin/java", program: true},
		"not a collector of 3.4's": {paths: []string{"/bin/x", "/lib/librubygc.default.so"}, exe: "/bin/x", program: true},
	} {
		t.Run(name, func(t *testing.T) {
			ruby, program, err := findRubyModule(test.paths, test.exe, func(path string) (*Module, error) {
				if slices.Contains(test.refused, path) {
					return nil, refuse
				}
				defined := slices.Contains(test.ruby, path)
				return &Module{Path: path, asked: map[askedFor]found{{nil, symbolVersion}: {defined: defined}}}, nil
			})
			got := ""
			if ruby != nil {
				got = ruby.Path
			}
			if got != test.want || (program != nil) != test.program || !errors.Is(err, test.err) {
				t.Errorf("%q, program %t, %v; want %q, %t, %v", got, program != nil, err, test.want, test.program, test.err)
			}
		})
	}
}
