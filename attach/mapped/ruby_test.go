package mapped

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestFindRubyModules: a process has mapped several files. FindRubyModules returns the file with the process's Ruby.
func TestFindRubyModules(t *testing.T) {
	refuse := errors.New("may not be opened")
	for name, test := range map[string]struct {
		paths []string
		exe   string
		// ruby are the files that define ruby_version. refused are the files among them that cannot be opened.
		ruby, refused []string
		// idle are the files in ruby whose interpreter was not started.
		idle    []string
		want    string // the wanted files, separated by blanks
		program bool
		err     error
	}{
		"library":                  {paths: []string{"/bin/ruby", "/lib/libc.so.6", "/lib/libruby.so.3.3"}, exe: "/bin/ruby", ruby: []string{"/lib/libruby.so.3.3"}, want: "/lib/libruby.so.3.3"},
		"static":                   {paths: []string{"/bin/ruby", "/lib/libc.so.6"}, exe: "/bin/ruby", ruby: []string{"/bin/ruby"}, want: "/bin/ruby"},
		"static, named otherwise":  {paths: []string{"/bin/app"}, exe: "/bin/app", ruby: []string{"/bin/app"}, want: "/bin/app"},
		"embedded":                 {paths: []string{"/bin/nginx", "/lib/passenger.so.1"}, exe: "/bin/nginx", ruby: []string{"/lib/passenger.so.1"}, want: "/lib/passenger.so.1"},
		"emulated, static":         {paths: []string{"/arm64/bin/ruby3.3", "/bin/qemu-aarch64-static"}, exe: "/bin/qemu-aarch64-static", ruby: []string{"/arm64/bin/ruby3.3"}, want: "/arm64/bin/ruby3.3"},
		"emulated, library":        {paths: []string{"/arm64/bin/ruby", "/arm64/lib/libruby.so.3.3", "/bin/qemu-aarch64"}, exe: "/bin/qemu-aarch64", ruby: []string{"/arm64/lib/libruby.so.3.3"}, want: "/arm64/lib/libruby.so.3.3"},
		"the wrong library":        {paths: []string{"/bin/ruby", "/lib/libruby.so.3.3"}, exe: "/bin/ruby", ruby: []string{"/bin/ruby"}, want: "/bin/ruby"},
		"two, the first idle":      {paths: []string{"/bin/host", "/a/libruby.so.3.1", "/b/libruby.so.3.3"}, exe: "/bin/host", ruby: []string{"/a/libruby.so.3.1", "/b/libruby.so.3.3"}, idle: []string{"/a/libruby.so.3.1"}, want: "/b/libruby.so.3.3 /a/libruby.so.3.1"},
		"two, both idle":           {paths: []string{"/bin/host", "/a/libruby.so.3.1", "/b/libruby.so.3.3"}, exe: "/bin/host", ruby: []string{"/a/libruby.so.3.1", "/b/libruby.so.3.3"}, idle: []string{"/a/libruby.so.3.1", "/b/libruby.so.3.3"}, want: "/a/libruby.so.3.1 /b/libruby.so.3.3"},
		"static, library idle":     {paths: []string{"/bin/app", "/a/libruby.so.3.1"}, exe: "/bin/app", ruby: []string{"/bin/app", "/a/libruby.so.3.1"}, idle: []string{"/a/libruby.so.3.1"}, want: "/bin/app /a/libruby.so.3.1"},
		"embedded, library idle":   {paths: []string{"/bin/app", "/a/libruby.so.3.1", "/lib/engine.so"}, exe: "/bin/app", ruby: []string{"/a/libruby.so.3.1", "/lib/engine.so"}, idle: []string{"/a/libruby.so.3.1"}, want: "/lib/engine.so /a/libruby.so.3.1"},
		"none":                     {paths: []string{"/bin/sleep", "/lib/libc.so.6"}, exe: "/bin/sleep", program: true},
		"none, named ruby":         {paths: []string{"/bin/qemu-aarch64", "/arm64/bin/ruby"}, exe: "/bin/qemu-aarch64", program: true},
		"library can't be opened":  {paths: []string{"/bin/ruby", "/lib/libruby.so.3.3"}, exe: "/bin/ruby", refused: []string{"/lib/libruby.so.3.3"}, program: true, err: refuse},
		"program can't be opened":  {paths: []string{"/bin/ruby"}, exe: "/bin/ruby", refused: []string{"/bin/ruby"}, err: refuse},
		"not TruffleRuby's":        {paths: []string{"/bin/java", "/lib/librubyvm.so"}, exe: "/bin/java", program: true},
		"not a collector of 3.4's": {paths: []string{"/bin/x", "/lib/librubygc.default.so"}, exe: "/bin/x", program: true},
	} {
		t.Run(name, func(t *testing.T) {
			var images []Image
			for _, path := range test.paths {
				images = append(images, Image{Path: path})
			}
			rubies, program, err := FindRubyModules(images, test.exe, func(of Image) (*Module, error) {
				if slices.Contains(test.refused, of.Path) {
					return nil, refuse
				}
				defined := slices.Contains(test.ruby, of.Path)
				return &Module{Path: of.Path, asked: map[askedFor]found{{nil, SymbolVersion}: {defined: defined}}}, nil
			}, func(m *Module) bool { return !slices.Contains(test.idle, m.Path) })
			var all []string
			for _, m := range rubies {
				all = append(all, m.Path)
			}
			got := strings.Join(all, " ")
			if got != test.want || (program != nil) != test.program || !errors.Is(err, test.err) {
				t.Errorf("%q, program %t, %v; want %q, %t, %v", got, program != nil, err, test.want, test.program, test.err)
			}
		})
	}
}

// TestMappedImages: a file has two images if it was replaced and loaded again, or if it was loaded twice.
func TestMappedImages(t *testing.T) {
	m := func(start Address, path string, inode, offset uint64) Mapping {
		return Mapping{Start: start, End: start + 1, Path: path, Inode: inode, Offset: offset}
	}
	var got []int
	for _, of := range MappedImages([]Mapping{
		m(1, "/a", 1, 0), m(2, "/a", 1, 4096), m(3, "/b", 2, 0), m(4, "/a", 1, 8192), // one file, and another between its segments
		m(5, "/a", 1, 0), m(6, "/a", 1, 4096), // the same file, loaded again
		m(7, "/a", 9, 0), m(8, "/a", 9, 4096), // another file with this name
		m(9, "[heap]", 0, 0), m(10, "/c", 3, 4096), m(11, "/c", 3, 8192), // /c is a file whose first byte is not mapped
	}) {
		got = append(got, len(of.Mappings))
	}
	if !slices.Equal(got, []int{3, 1, 2, 2, 2}) {
		t.Errorf("images of %v mappings", got)
	}
}

// TestImagesWithCode: if a file with code is mapped once more only for reading, the second mapping is not an image. If
// no mapping of a file has code, each of its mappings is an image.
func TestImagesWithCode(t *testing.T) {
	read := Mapping{Start: 1, End: 2, Path: "/a", Inode: 1}
	head, code := Mapping{Start: 3, End: 4, Path: "/a", Inode: 1}, Mapping{Start: 4, End: 5, Path: "/a", Inode: 1, Offset: 4096, Exec: true}
	data := Mapping{Start: 6, End: 7, Path: "/b", Inode: 2}
	got := MappedImages([]Mapping{read, head, code, data})
	if len(got) != 2 || !slices.Equal(got[0].Mappings, []Mapping{head, code}) || got[1].Path != "/b" {
		t.Errorf("%+v", got)
	}
	if got := MappedImages([]Mapping{read, head}); len(got) != 2 {
		t.Errorf("without code: %+v", got)
	}
}
