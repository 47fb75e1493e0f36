package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	krew "sigs.k8s.io/krew/pkg/index"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/ddtop/ddtop/internal/cli"
)

// strictly decodes YAML or JSON into a type of the Kubernetes API. The test fails if the text has a field that is
// missing in the type.
func strictly(t *testing.T, text []byte, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		t.Errorf("%v in\n%s", err, text)
	}
}

// TestKustomization: kustomize accepts the folder with ddtop's Kubernetes files, and makes a namespace and a DaemonSet
// from it. Both must be valid objects of the Kubernetes API. The DaemonSet must be in the namespace, and use the image
// of this release.
func TestKustomization(t *testing.T) {
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join("..", "kubernetes"))
	if err != nil {
		t.Fatal(err)
	}
	kinds := make(map[string]bool)
	for _, r := range made.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		kinds[r.GetKind()] = true
		switch r.GetKind() {
		case "Namespace":
			var n corev1.Namespace
			strictly(t, text, &n)
			if n.Name != "ddtop" {
				t.Errorf("the namespace is %s", n.Name)
			}
		case "DaemonSet":
			var d appsv1.DaemonSet
			strictly(t, text, &d)
			if d.Namespace != "ddtop" {
				t.Errorf("the DaemonSet is in %q", d.Namespace)
			}
			if image := d.Spec.Template.Spec.Containers[0].Image; image != "ghcr.io/ddtop/ddtop:"+cli.Version {
				t.Errorf("its image is %s", image)
			}
		default:
			t.Errorf("there is a %s", r.GetKind())
		}
	}
	if !kinds["Namespace"] || !kinds["DaemonSet"] {
		t.Errorf("there are only %v", kinds)
	}
}

// TestKrewManifest: krew, the installer for kubectl's plugins, can install ddtop. ddtop's manifest has only fields that
// krew supports, and the right checksum of the archive. The archive has all files that the manifest names. The plugin
// in the archive prints its help.
func TestKrewManifest(t *testing.T) {
	folder, sums := dist(t)
	text, err := os.ReadFile(filepath.Join(folder, "krew.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var p krew.Plugin
	strictly(t, text, &p)
	if p.Name != "ddtop" || p.Spec.Version != "v"+cli.Version || len(p.Spec.Platforms) != 1 {
		t.Fatalf("it is %+v", p)
	}
	archive := "kubectl-ddtop_" + cli.Version + ".tar.gz"
	on := p.Spec.Platforms[0]
	if !strings.HasSuffix(on.URI, "/"+archive) || on.Sha256 != sums[archive] {
		t.Errorf("it names %s with %s", on.URI, on.Sha256)
	}
	dir := t.TempDir()
	output(t, "tar", "-xzf", filepath.Join(folder, archive), "-C", dir)
	for _, f := range on.Files {
		if _, err := os.Stat(filepath.Join(dir, f.From)); err != nil {
			t.Error(err)
		}
	}
	if out := output(t, filepath.Join(dir, on.Bin), "--help"); !strings.Contains(out, "kubectl ddtop POD") {
		t.Errorf("its help is %s", out)
	}
}

// TestPlugin: the plugin `kubectl ddtop` calls kubectl to add an ephemeral container beside the chosen container. The
// new container gets only the two capabilities that ddtop needs, and the arguments for ddtop. In the test, kubectl is a
// script that records its arguments.
func TestPlugin(t *testing.T) {
	dir := t.TempDir()
	kubectl := `#!/bin/sh
if [ "$1" = get ]; then printf '%s' "$CONTAINERS"; exit; fi
for a in "$@"; do printf '%s\n' "$a"; done >"$CALLS"
while [ $# -gt 0 ]; do [ "$1" != --custom ] || cp "$2" "$CALLS.custom"; shift; done
exit "${CODE-0}"
`
	if err := os.WriteFile(filepath.Join(dir, "kubectl"), []byte(kubectl), 0o755); err != nil {
		t.Fatal(err)
	}
	calls := filepath.Join(dir, "calls")
	plugin := func(containers, code string, args ...string) (string, int) {
		cmd := exec.Command(filepath.Join("..", "kubernetes", "kubectl-ddtop"), args...)
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "CALLS="+calls, "CONTAINERS="+containers, "CODE="+code, "TMPDIR="+dir)
		out, err := cmd.CombinedOutput()
		if _, ended := err.(*exec.ExitError); err != nil && !ended {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	out, code := plugin("app", "0", "pod/web-1", "--image", "x:1", "--", "stat", "-p", "1")
	if code != 0 {
		t.Fatalf("code %d, %s", code, out)
	}
	text, err := os.ReadFile(calls)
	if err != nil {
		t.Fatal(err)
	}
	called := regexp.MustCompile(`ddtop-\d+-\d+`).ReplaceAllString(strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", " "), "NAME")
	called = regexp.MustCompile(`--custom \S+`).ReplaceAllString(called, "--custom FILE")
	if want := "debug web-1 --quiet --container NAME --target app --image x:1 --profile general --custom FILE --stdin --attach -- /ddtop stat -p 1"; called != want {
		t.Errorf("kubectl was called with\n%s, not\n%s", called, want)
	}
	custom, err := os.ReadFile(calls + ".custom")
	if err != nil {
		t.Fatal(err)
	}
	var c corev1.Container
	d := json.NewDecoder(bytes.NewReader(custom))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil || d.Decode(new(any)) != io.EOF {
		t.Fatalf("%v in %s", err, custom)
	}
	s := c.SecurityContext
	if *s.RunAsUser != 0 || *s.Privileged || *s.AllowPrivilegeEscalation || len(s.Capabilities.Drop) != 1 || s.Capabilities.Drop[0] != "ALL" ||
		len(s.Capabilities.Add) != 2 || s.Capabilities.Add[0] != "SYS_PTRACE" || s.Capabilities.Add[1] != "DAC_READ_SEARCH" {
		t.Errorf("its rights are %s", custom)
	}
	for _, c := range []struct {
		containers, code string
		args             []string
		want             string
		ends             int
	}{
		{"app sidecar", "0", []string{"web-1"}, "choose one with -c", 2},
		{"app", "0", nil, "name a pod", 2},
		{"app", "0", []string{"a", "b"}, "both name a pod", 2},
		{"app", "0", []string{"a", "-c"}, "needs a value", 2},
		{"app", "0", []string{"a", "--nonsense"}, "no option --nonsense", 2},
		{"app", "3", []string{"a"}, "", 3}, // ddtop's own exit code
	} {
		if out, code := plugin(c.containers, c.code, c.args...); code != c.ends || !strings.Contains(out, c.want) {
			t.Errorf("%q: code %d, %s", c.args, code, out)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "tmp.*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
