package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/internal/cli"
	"github.com/ddtop/ddtop/internal/rubytest"
)

// dist returns the folder of the release to test, and the checksums of its files. scripts/release names the folder in
// DDTOP_DIST.
func dist(t *testing.T) (folder string, sums map[string]string) {
	t.Helper()
	folder = os.Getenv("DDTOP_DIST")
	if folder == "" {
		t.Skip("DDTOP_DIST names no folder of a release: scripts/release try")
	}
	sums, err := readChecksums(filepath.Join(folder, checksumsFile))
	if err != nil {
		t.Fatal(err)
	}
	return folder, sums
}

// output runs a program and returns what it wrote.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// TestReleaseIsComplete: a release has an archive and an SBOM for every platform. An SBOM is a list of the modules in
// an archive. For Linux there are also packages for both architectures. All checksums are right.
func TestReleaseIsComplete(t *testing.T) {
	folder, sums := dist(t)
	v := cli.Version
	want := []string{"install.sh", "kubectl-ddtop_" + v + ".tar.gz", "ddtop_" + v + "_image.tar",
		"ddtop_" + v + "_amd64.deb", "ddtop_" + v + "_arm64.deb", "ddtop-" + v + "-1.x86_64.rpm", "ddtop-" + v + "-1.aarch64.rpm",
		"ddtop_" + v + "_x86_64.apk", "ddtop_" + v + "_aarch64.apk"}
	for _, platform := range []string{"linux_amd64", "linux_arm64", "darwin_amd64", "darwin_arm64"} {
		want = append(want, "ddtop_"+v+"_"+platform+".tar.gz", "ddtop_"+v+"_"+platform+".cdx.json")
	}
	for _, name := range want {
		if sums[name] == "" {
			t.Errorf("there is no %s", name)
		}
	}
	if len(sums) != len(want) {
		t.Errorf("%d files have checksums, not %d", len(sums), len(want))
	}
	for name, sum := range sums {
		b, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimPrefix(digest(b), "sha256:"); got != sum {
			t.Errorf("%s has the checksum %s, not %s", name, got, sum)
		}
	}
}

// TestSBOM: each SBOM (the list of modules in an archive) names ddtop, and some of the modules that go.mod requires.
func TestSBOM(t *testing.T) {
	folder, _ := dist(t)
	list, err := filepath.Glob(filepath.Join(folder, "*.cdx.json"))
	if err != nil || len(list) != 4 {
		t.Fatalf("SBOMs: %v, %v", list, err)
	}
	for _, file := range list {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var bom struct {
			BOMFormat  string
			Metadata   struct{ Component struct{ Name string } }
			Components []struct{ Name, Version, PURL string }
		}
		if err := json.Unmarshal(text, &bom); err != nil {
			t.Fatal(err)
		}
		if bom.BOMFormat != "CycloneDX" || bom.Metadata.Component.Name != "github.com/ddtop/ddtop" {
			t.Errorf("%s is of %s in the format %s", file, bom.Metadata.Component.Name, bom.BOMFormat)
		}
		for _, module := range []string{"github.com/spf13/cobra", "charm.land/bubbletea/v2", "github.com/klauspost/compress"} {
			if !slices.ContainsFunc(bom.Components, func(c struct{ Name, Version, PURL string }) bool { return c.Name == module && c.Version != "" }) {
				t.Errorf("%s lacks %s", file, module)
			}
		}
	}
}

// TestProvenance: the provenance file names the commit from which the release was built, and every file with its
// checksum.
func TestProvenance(t *testing.T) {
	folder, sums := dist(t)
	text, err := os.ReadFile(filepath.Join(folder, "provenance.intoto.json"))
	if err != nil {
		t.Fatal(err)
	}
	var s statement
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	for _, m := range s.Subject {
		if sums[m.Name] != m.Digest["sha256"] {
			t.Errorf("%s has another checksum than in %s", m.Name, checksumsFile)
		}
	}
	if len(s.Subject) != len(sums) {
		t.Errorf("it is of %d files, not of %d", len(s.Subject), len(sums))
	}
	if commit := s.Predicate.BuildDefinition.ResolvedDependencies[0].Digest["gitCommit"]; !regexp.MustCompile(`^[0-9a-f]{40}$`).MatchString(commit) {
		t.Errorf("its commit is %q", commit)
	}
}

// archive unpacks the release's archive for this machine into a folder, and returns the folder.
func archive(t *testing.T) string {
	t.Helper()
	folder, _ := dist(t)
	dir := t.TempDir()
	output(t, "tar", "-xzf", filepath.Join(folder, "ddtop_"+cli.Version+"_"+runtime.GOOS+"_"+runtime.GOARCH+".tar.gz"), "-C", dir)
	return dir
}

// TestArchive: the binary in the archive is static, and prints its version, its commit and the day of the commit. The
// archive also has man pages and completions.
func TestArchive(t *testing.T) {
	dir := archive(t)
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md", "man/ddtop.1.gz", "man/ddtop-record.1.gz", "completions/ddtop.bash", "completions/_ddtop", "completions/ddtop.fish"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	ddtop := filepath.Join(dir, "ddtop")
	said := output(t, ddtop, "version")
	if !regexp.MustCompile(`^ddtop ` + regexp.QuoteMeta(cli.Version) + ` \(commit [0-9a-f]{12}, \d{4}-\d\d-\d\d\), go1\.\S+, `).MatchString(said) {
		t.Errorf("it is %q", said)
	}
	if ldd, err := exec.Command("ldd", ddtop).CombinedOutput(); err == nil {
		t.Errorf("it is not static: %s", ldd)
	}
}

// TestCompletions: each shell accepts its completion script, and bash completes a command of ddtop with its script.
func TestCompletions(t *testing.T) {
	dir := archive(t)
	for shell, file := range map[string]string{"bash": "ddtop.bash", "zsh": "_ddtop", "fish": "ddtop.fish"} {
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("%s is not here", shell)
			continue
		}
		output(t, path, "-n", filepath.Join(dir, "completions", file))
	}
	if _, err := os.Stat("/usr/share/bash-completion/bash_completion"); err != nil {
		t.Skip("bash-completion is not here")
	}
	script := `. /usr/share/bash-completion/bash_completion; . completions/ddtop.bash; PATH=$PWD:$PATH
COMP_WORDS=(ddtop do) COMP_CWORD=1 COMP_LINE="ddtop do" COMP_POINT=8 COMP_TYPE=9
__start_ddtop; echo "${COMPREPLY[@]}"`
	cmd := exec.Command("bash", "-c", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "doctor") {
		t.Errorf("%v: it completes %q", err, out)
	}
}

// TestManPages: the program man shows each page without a warning, and each page has a synopsis.
func TestManPages(t *testing.T) {
	dir := archive(t)
	if _, err := exec.LookPath("man"); err != nil {
		t.Skip("man is not here")
	}
	pages, err := filepath.Glob(filepath.Join(dir, "man", "*.gz"))
	if err != nil || len(pages) < 12 {
		t.Fatalf("pages: %v, %v", pages, err)
	}
	for _, page := range pages {
		cmd := exec.Command("man", "--warnings", "-l", page)
		cmd.Env = append(os.Environ(), "MANPAGER=cat", "MANWIDTH=100", "LC_ALL=C.UTF-8")
		var complaints bytes.Buffer
		cmd.Stderr = &complaints
		text, err := cmd.Output()
		if err != nil || complaints.Len() > 0 || !strings.Contains(string(text), "SYNOPSIS") {
			t.Errorf("%s: %v, %s", page, err, &complaints)
		}
	}
}

// TestInstallScript: install.sh installs this release, and can remove all of it. Tests in internal/archtest check what
// the script does after errors.
func TestInstallScript(t *testing.T) {
	folder, _ := dist(t)
	script := filepath.Join(folder, "install.sh")
	server := httptest.NewServer(http.FileServer(http.Dir(folder)))
	defer server.Close()
	prefix := filepath.Join(t.TempDir(), "a folder")
	for _, from := range [][]string{{"--from", server.URL}, {"--from", "file://" + folder, "--version", cli.Version}} {
		out := output(t, "sh", append([]string{script, "--prefix", prefix}, from...)...)
		ddtop := filepath.Join(prefix, "bin", "ddtop")
		for _, want := range []string{"installed " + ddtop, "ddtop " + cli.Version} {
			if !strings.Contains(out, want) {
				t.Errorf("it does not say %q: %s", want, out)
			}
		}
		if said := output(t, ddtop, "version"); !strings.Contains(said, cli.Version) {
			t.Errorf("the installed ddtop is %s", said)
		}
		output(t, "sh", script, "--uninstall", "--prefix", prefix)
		if left, err := os.ReadDir(prefix); err != nil || len(left) != 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
}

// TestFormula: the Homebrew formula names the release's archives with their checksums, and Ruby accepts its syntax.
func TestFormula(t *testing.T) {
	folder, sums := dist(t)
	file := filepath.Join(folder, "ddtop.rb")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	links := regexp.MustCompile(`url "https://github.com/ddtop/ddtop/releases/download/v`+regexp.QuoteMeta(cli.Version)+`/(.*)"\n\s+sha256 "(.*)"`).FindAllStringSubmatch(string(text), -1)
	if len(links) != 4 {
		t.Errorf("it has %d archives", len(links))
	}
	for _, l := range links {
		if sums[l[1]] != l[2] {
			t.Errorf("%s has another checksum", l[1])
		}
	}
	output(t, rubytest.One(t).Bin, "-c", file)
}

// TestPackages: dpkg and rpm accept ddtop's packages for both architectures. The Alpine package follows the rules of
// apk. Each package has all files that it needs. Installing a package does not enable the service.
func TestPackages(t *testing.T) {
	folder, sums := dist(t)
	tools := map[string][]string{".deb": {"dpkg-deb", "--contents"}, ".rpm": {"rpm", "-qlp", "--nosignature"}}
	for name := range sums {
		file := filepath.Join(folder, name)
		var files string
		switch ext := filepath.Ext(name); ext {
		case ".deb", ".rpm":
			if _, err := exec.LookPath(tools[ext][0]); err != nil {
				t.Errorf("%s is not here", tools[ext][0])
				continue
			}
			files = output(t, tools[ext][0], append(tools[ext][1:], file)...)
			if ext == ".rpm" {
				output(t, "rpm", "-K", "--nosignature", file)
				files += output(t, "rpm", "-qip", "--nosignature", file)
			} else {
				files += output(t, "dpkg-deb", "--info", file)
			}
		case ".apk":
			files = output(t, "go", "run", ".", "apk", file)
		default:
			continue
		}
		for _, want := range []string{"usr/bin/ddtop", "usr/share/man/man1/ddtop.1.gz", "usr/share/man/man1/ddtop-push.1.gz", "usr/share/bash-completion/completions/ddtop",
			"/_ddtop", "usr/share/fish/vendor_completions.d/ddtop.fish", "usr/lib/systemd/system/ddtop-push.service", "MIT"} {
			if want == "MIT" && strings.HasSuffix(name, ".deb") {
				want = "usr/share/doc/ddtop/copyright" // in a .deb the licence has this name
			}
			if !strings.Contains(files, want) {
				t.Errorf("%s lacks %s:\n%s", name, want, files)
			}
		}
		for _, never := range []string{"etc/systemd", ".wants"} {
			if strings.Contains(files, never) {
				t.Errorf("%s has %s: the service must be disabled", name, never)
			}
		}
	}
}

// TestRPM: rpm installs the package into an empty root folder and finds all files unchanged. When rpm removes the
// package, no file is left.
func TestRPM(t *testing.T) {
	folder, _ := dist(t)
	if _, err := exec.LookPath("rpm"); err != nil || os.Getuid() != 0 {
		t.Skip("needs root, and rpm")
	}
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	root := t.TempDir()
	rpm := func(args ...string) string {
		return output(t, "rpm", append([]string{"--root", root, "--dbpath", "/rpmdb"}, args...)...)
	}
	// rpm must not run the package's scripts, because the empty root folder has no shell.
	rpm("-i", "--nodeps", "--noscripts", "--nosignature", filepath.Join(folder, "ddtop-"+cli.Version+"-1."+arch+".rpm"))
	if out := rpm("-V", "--nodeps", "ddtop"); out != "" {
		t.Errorf("rpm finds other files than those of the package: %s", out)
	}
	if out := output(t, filepath.Join(root, "usr/bin/ddtop"), "version"); !strings.Contains(out, cli.Version) {
		t.Errorf("it is %s", out)
	}
	rpm("-e", "--noscripts", "ddtop")
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasPrefix(path, filepath.Join(root, "rpmdb")) {
			t.Errorf("left behind: %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestImage: the container image is small, and has the binary and the certificates. The test runs ddtop from the image,
// in namespaces of its own, as a user with only the two documented capabilities. This ddtop can read a Ruby process
// outside of its container.
func TestImage(t *testing.T) {
	folder, _ := dist(t)
	image := filepath.Join(folder, "ddtop_"+cli.Version+"_image.tar")
	for _, arch := range []string{"amd64", "arm64"} {
		root := t.TempDir()
		said := output(t, "go", "run", ".", "unpack", image, arch, root)
		var size int
		if _, err := fmt.Sscanf(said[strings.LastIndex(said, ", ")+2:], "%d bytes packed", &size); err != nil || size > 40e6 || !strings.Contains(said, "user 65532:65532, entrypoint /ddtop") {
			t.Errorf("the image for %s: %s", arch, said)
		}
		certs, err := os.ReadFile(filepath.Join(root, "etc/ssl/certs/ca-certificates.crt"))
		if err != nil || bytes.Count(certs, []byte("BEGIN CERTIFICATE")) < 50 {
			t.Errorf("%d bytes of certificates: %v", len(certs), err)
		}
		if arch == runtime.GOARCH {
			runImage(t, root)
		}
	}
}

// TestImageForDocker: a `docker load` that cannot read OCI layouts reads manifest.json instead. manifest.json must name
// the same blobs as the layout. Each image is tagged with the release and its architecture. One image is also tagged
// with the release alone.
func TestImageForDocker(t *testing.T) {
	folder, _ := dist(t)
	blobs, err := readTar(filepath.Join(folder, "ddtop_"+cli.Version+"_image.tar"))
	if err != nil {
		t.Fatal(err)
	}
	var images []archived
	if err := json.Unmarshal(blobs["manifest.json"], &images); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, image := range images {
		names = append(names, image.RepoTags...)
		var c config
		if err := json.Unmarshal(blobs[image.Config], &c); err != nil {
			t.Fatalf("%s: %v", image.Config, err)
		}
		if len(image.Layers) != 1 || len(c.RootFS.DiffIDs) != 1 {
			t.Fatalf("%+v, %+v: want one layer", image, c.RootFS)
		}
		layer := blobs[image.Layers[0]]
		d := descriptor{MediaType: layerType, Digest: digest(layer), Size: len(layer)}
		if err := blobs.extract(d, c.RootFS.DiffIDs[0], t.TempDir()); err != nil || blobPath(d) != image.Layers[0] {
			t.Errorf("%s of %s: %v", image.Layers[0], c.Architecture, err)
		}
	}
	slices.Sort(names)
	const name = "ghcr.io/ddtop/ddtop:" + cli.Version
	if want := []string{name, name + "-amd64", name + "-arm64"}; !slices.Equal(names, want) {
		t.Errorf("the images are called %q, want %q", names, want)
	}
}

func runImage(t *testing.T, root string) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	ruby := rubytest.One(t).Start(t, `Thread.new { Thread.current.name = "worker-of-image"; sleep }; $stdout.sync = true; puts "up"; sleep`, rubytest.Options{})
	ruby.Expect(t, "up")
	// Mount a /proc that shows all processes, as in a container that has the host's PID namespace.
	proc := filepath.Join(root, "proc")
	if err := os.Mkdir(proc, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("/proc", proc, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		t.Skipf("no mounts here: %v", err)
	}
	defer func() {
		if err := unix.Unmount(proc, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	dump := func(caps ...uintptr) (string, error) {
		cmd := exec.Command("/ddtop", "dump", "-p", strconv.Itoa(ruby.PID))
		cmd.Dir, cmd.Env = "/", []string{"PATH=/"}
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}, AmbientCaps: caps,
			Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := dump(unix.CAP_SYS_PTRACE, unix.CAP_DAC_READ_SEARCH); err != nil || !strings.Contains(out, "worker-of-image") {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := dump(); err == nil || !strings.Contains(out, "no permission") {
		t.Errorf("without capabilities: %v, %s", err, out)
	}
}

// TestGoInstall: `go install github.com/ddtop/ddtop@TAG` builds a ddtop that prints its version and the source that it
// was built from.
func TestGoInstall(t *testing.T) {
	dist(t)
	dir := t.TempDir()
	tag := "v" + cli.Version
	if err := proxy([]string{filepath.Join(dir, "proxy"), tag}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "install", "github.com/ddtop/ddtop@"+tag)
	cmd.Dir = dir
	// Nothing is downloaded: ddtop's dependencies come from the user's module cache. But go install writes into a
	// module cache of the test, so that the tested version of ddtop does not stay in the user's cache.
	known := filepath.Join(strings.TrimSpace(output(t, "go", "env", "GOMODCACHE")), "cache", "download")
	cache := filepath.Join(dir, "cache")
	cmd.Env = append(os.Environ(), "GOPROXY=file://"+filepath.Join(dir, "proxy")+",file://"+known, "GOSUMDB=off", "GOMODCACHE="+cache,
		"GOBIN="+filepath.Join(dir, "bin"), "GOFLAGS=-trimpath", "CGO_ENABLED=0")
	defer func() { output(t, "chmod", "-R", "u+w", cache) }() // so that the cache can be removed
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if said := output(t, filepath.Join(dir, "bin", "ddtop"), "version"); !strings.HasPrefix(said, "ddtop "+cli.Version+" (module "+tag+"), go1.") {
		t.Errorf("it is %q", said)
	}
}

// TestFlake: Nix accepts the syntax of flake.nix. Tests in internal/archtest check its content.
func TestFlake(t *testing.T) {
	dist(t)
	nix, err := exec.LookPath("nix-instantiate")
	if err != nil {
		t.Skip("nix-instantiate is not here")
	}
	output(t, nix, "--parse", filepath.Join("..", "..", "flake.nix"))
}
