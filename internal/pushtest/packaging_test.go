package pushtest

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/ddtop/ddtop/internal/rubytest"
)

func packaged(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "packaging", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// takesArguments checks that ddtop accepts the command line in a package's file, such as the systemd unit.
func takesArguments(t *testing.T, args []string) {
	t.Helper()
	if out, err := exec.Command(build(t), append(slices.Clone(args), "--help")...).CombinedOutput(); err != nil {
		t.Errorf("%q: %v\n%s", args, err, out)
	}
}

// daemonSet has those fields of a Kubernetes DaemonSet that the test checks.
type daemonSet struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Spec       struct {
		Selector struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		}
		Template struct {
			Metadata struct{ Labels, Annotations map[string]string }
			Spec     struct {
				HostPID     bool `yaml:"hostPID"`
				HostNetwork bool `yaml:"hostNetwork"`
				Containers  []struct {
					Args  []string
					Ports []struct {
						Name          string
						ContainerPort int `yaml:"containerPort"`
					}
					LivenessProbe struct {
						HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
					} `yaml:"livenessProbe"`
					SecurityContext struct {
						Privileged               *bool
						AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
						ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
						Capabilities             struct{ Drop, Add []string }
					} `yaml:"securityContext"`
				}
				Volumes []map[string]any
			}
		}
	}
}

// TestDaemonSet: the Kubernetes DaemonSet can see all processes of its node, and has only the two capabilities that
// ddtop needs. ddtop accepts the flags that the DaemonSet passes.
func TestDaemonSet(t *testing.T) {
	var d daemonSet
	all := yaml.NewDecoder(strings.NewReader(packaged(t, "kubernetes/daemonset.yaml")))
	if err := all.Decode(&d); err != nil {
		t.Fatal(err)
	}
	if err := all.Decode(new(daemonSet)); err != io.EOF {
		t.Errorf("there is more than a DaemonSet in it: %v", err)
	}
	spec := d.Spec.Template.Spec
	if d.APIVersion != "apps/v1" || d.Kind != "DaemonSet" || !spec.HostPID || spec.HostNetwork || len(spec.Containers) != 1 {
		t.Fatalf("it is %+v", d)
	}
	for k, v := range d.Spec.Selector.MatchLabels {
		if d.Spec.Template.Metadata.Labels[k] != v {
			t.Errorf("it selects %s: %s, which its pods don't have", k, v)
		}
	}
	c := spec.Containers[0]
	s := c.SecurityContext
	if s.Privileged == nil || *s.Privileged || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || !s.ReadOnlyRootFilesystem ||
		!slices.Equal(s.Capabilities.Drop, []string{"ALL"}) || !slices.Equal(s.Capabilities.Add, []string{"SYS_PTRACE", "DAC_READ_SEARCH"}) {
		t.Errorf("its rights are %+v", s)
	}
	for _, v := range spec.Volumes {
		if _, ok := v["hostPath"]; ok {
			t.Errorf("it has a folder of the node: %v", v)
		}
	}
	port := strconv.Itoa(c.Ports[0].ContainerPort)
	if !slices.Contains(c.Args, "--status=0.0.0.0:"+port) || c.LivenessProbe.HTTPGet.Port != c.Ports[0].Name || c.LivenessProbe.HTTPGet.Path != "/healthz" || d.Spec.Template.Metadata.Annotations["prometheus.io/port"] != port {
		t.Errorf("its port %s, of %v, %v", port, c.LivenessProbe, c.Args)
	}
	takesArguments(t, c.Args)
}

// TestUnit: systemd accepts ddtop's unit file without a warning, and ddtop accepts the flags in the file.
func TestUnit(t *testing.T) {
	unit := packaged(t, "systemd/ddtop-push.service")
	line := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/ddtop (.*)$`).FindStringSubmatch(unit)
	if line == nil {
		t.Fatal("it starts no ddtop")
	}
	takesArguments(t, strings.Fields(line[1]))
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not here: package systemd")
	}
	// systemd-analyze checks that the program exists.
	file := filepath.Join(t.TempDir(), "ddtop-push.service")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(unit, "/usr/local/bin/ddtop", build(t))), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(analyze, "verify", "--man=no", file).CombinedOutput(); err != nil || bytes.Contains(out, []byte("ddtop-push.service")) {
		t.Errorf("systemd says: %v\n%s", err, out)
	}
}

// TestUnitsRights: the capabilities in ddtop's systemd unit are enough. With only these rights, ddtop can read a
// process of another user.
func TestUnitsRights(t *testing.T) {
	setpriv, err := exec.LookPath("setpriv")
	if err != nil || os.Getuid() != 0 {
		t.Skip("needs root, and setpriv of the package util-linux")
	}
	m := regexp.MustCompile(`(?m)^AmbientCapabilities=(.*)$`).FindStringSubmatch(packaged(t, "systemd/ddtop-push.service"))
	if m == nil {
		t.Fatal("it has no capabilities")
	}
	rights := "-all,+" + strings.ReplaceAll(strings.ReplaceAll(strings.ToLower(m[1]), "cap_", ""), " ", ",+")
	ddtop := build(t)
	try := exec.Command(setpriv, "--reuid=65532", "--regid=65532", "--clear-groups", "--no-new-privs", "--inh-caps="+rights, "--ambient-caps="+rights, "--bounding-set="+rights, "--", ddtop, "--version")
	if out, err := try.CombinedOutput(); err != nil {
		t.Skipf("the unit's capabilities can't be had here: %v: %s", err, out)
	}
	ruby := rubytest.One(t).Start(t, `$stdout.sync = true; puts "up"; sleep`, rubytest.Options{})
	ruby.Expect(t, "up")
	dir, err := os.MkdirTemp("", "ddtop-unit") // other users cannot reach t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chown(dir, 65532, 65532); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(setpriv, "--reuid=65532", "--regid=65532", "--clear-groups", "--no-new-privs", "--inh-caps="+rights, "--ambient-caps="+rights, "--bounding-set="+rights, "--",
		ddtop, "push", "--overhead", "off", "--period", "1s", "-p", strconv.Itoa(ruby.PID), "--to", "file://"+filepath.Join(dir, "profiles"))
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for deadline := time.Now().Add(timeout); ; time.Sleep(10 * time.Millisecond) {
		if list, err := filepath.Glob(filepath.Join(dir, "profiles", "*.pb.gz")); err == nil && len(list) > 0 {
			break
		}
		select {
		case err := <-ended:
			t.Fatalf("it ended: %v\n%s", err, &log)
		default:
		}
		if time.Now().After(deadline) {
			_ = cmd.Process.Kill() // fails if ddtop has ended already
			<-ended
			t.Fatalf("waited for a profile\n%s", &log)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("%v\n%s", err, &log)
	}
}

// TestDockerfile: ddtop's image is built without C code, with the Go release that go.mod names. It contains the root
// certificates for TLS, and runs as a user other than root.
func TestDockerfile(t *testing.T) {
	text := packaged(t, "docker/Dockerfile")
	stages := regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllStringSubmatch(text, -1)
	if len(stages) != 2 || stages[1][1] != "scratch" {
		t.Errorf("stages: %v", stages)
	}
	goVersion := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(must(os.ReadFile(filepath.Join("..", "..", "go.mod")))))[1]
	if stages[0][1] != "golang:"+goVersion {
		t.Errorf("it is built by %s, go.mod wants %s", stages[0][1], goVersion)
	}
	for _, want := range []string{"CGO_ENABLED=0 ", "\nUSER 65532:65532\n", "\nENTRYPOINT [\"/ddtop\"]\n", "ca-certificates.crt"} {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %q", want)
		}
	}
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}
