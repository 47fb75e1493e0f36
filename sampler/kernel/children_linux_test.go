package kernel

import (
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"
)

func TestIdentify(t *testing.T) {
	me, err := Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if me.PID != os.Getpid() || me.Parent != os.Getppid() || me.Exe != exe || me.Comm == "" || me.Ended {
		t.Errorf("%+v", me)
	}
	const tick = 10 * time.Millisecond
	if age := SinceBoot() - time.Duration(me.StartTicks)*tick; age < 0 || age > 24*time.Hour {
		t.Errorf("this test is %v old", age)
	}

	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	if id, err := Identify(pid); err != nil || id.Parent != os.Getpid() || id.StartTicks < me.StartTicks || id.Ended {
		t.Errorf("cat: %+v, %v", id, err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		id, err := Identify(pid)
		if err != nil {
			t.Fatalf("a zombie is still there: %v", err)
		}
		if id.Ended {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("it has ended, and %+v does not say so", id)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if _, err := Identify(pid); !errors.Is(err, ErrGone) {
		t.Errorf("after it was waited for: %v", err)
	}
}
