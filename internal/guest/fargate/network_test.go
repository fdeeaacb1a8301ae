//go:build linux

package fargate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/testenv"
)

func call(t *testing.T, namespace string, env map[string]string, config string) (int, map[string]any) {
	t.Helper()
	var out bytes.Buffer
	p := plugin{env: func(name string) string { return env[name] }, namespace: namespace}
	code := p.run(strings.NewReader(config), &out)
	var answer map[string]any
	if out.Len() > 0 {
		if err := json.Unmarshal(out.Bytes(), &answer); err != nil {
			t.Fatalf("%v: %s", err, &out)
		}
	}
	return code, answer
}

const loopbackConfig = `{"cniVersion":"1.0.0","name":"fargate","type":"fargate","address":"127.0.0.1"}`

func TestThePluginRefuses(t *testing.T) {
	t.Parallel()
	to := func(command, namespace string) map[string]string {
		return map[string]string{"CNI_COMMAND": command, "CNI_NETNS": namespace}
	}
	for name, test := range map[string]struct {
		env    map[string]string
		config string
		code   float64
	}{
		"no JSON":             {to("ADD", ""), `{`, codeDecoding},
		"a newer version":     {to("ADD", ""), `{"cniVersion":"2.0.0"}`, codeIncompatible},
		"no command":          {nil, loopbackConfig, codeEnvironment},
		"no namespace":        {to("ADD", ""), loopbackConfig, codeEnvironment},
		"nobody's address":    {to("ADD", "/x"), `{"cniVersion":"1.0.0","address":"192.0.2.1"}`, codeConfig},
		"no address":          {to("ADD", "/x"), `{"cniVersion":"1.0.0"}`, codeConfig},
		"a missing namespace": {to("ADD", "/does/not/exist"), loopbackConfig, codeFailed},
		"a check of another":  {to("CHECK", "/dev/null"), loopbackConfig, codeFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, answer := call(t, "/proc/self/ns/net", test.env, test.config)
			if code != 1 || answer["code"] != test.code || answer["msg"] == "" {
				t.Errorf("it ends with %d and says %v, want the code %v", code, answer, test.code)
			}
		})
	}
	if code, answer := call(t, "", map[string]string{"CNI_COMMAND": "VERSION"}, ""); code != 0 ||
		answer["cniVersion"] != cniVersion {
		t.Errorf("VERSION ends with %d and says %v", code, answer)
	}
}

// TestThePodGetsTheNetworkOfTheMachine does what containerd does: it mounts a new network namespace, lets the plugin
// replace it, and unmounts it when the sandbox ends. A second sandbox comes while the first one is there.
func TestThePodGetsTheNetworkOfTheMachine(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	dir := t.TempDir()
	runtime.LockOSThread() // other threads, the first one among them, may have another
	machine, err := os.Open("/proc/thread-self/ns/net")
	runtime.UnlockOSThread()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = machine.Close() })
	own, err := machine.Stat()
	if err != nil {
		t.Fatal(err)
	}
	namespace := fmt.Sprintf("/proc/self/fd/%d", machine.Fd())
	sandbox := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		mountNewNamespace(t, path)
		t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
		env := map[string]string{"CNI_COMMAND": "ADD", "CNI_NETNS": path, "CNI_IFNAME": "eth0", "CNI_CONTAINERID": name}
		for range 2 { // it may be asked again
			code, answer := call(t, namespace, env, loopbackConfig)
			if code != 0 {
				t.Fatalf("ADD ends with %d: %v", code, answer)
			}
			links, _ := answer["interfaces"].([]any)
			ips, _ := answer["ips"].([]any)
			if len(links) != 1 || len(ips) != 1 {
				t.Fatalf("ADD answers %v", answer)
			}
			link, _ := links[0].(map[string]any)
			ip, _ := ips[0].(map[string]any)
			if link["name"] != "eth0" || link["sandbox"] != path || ip["address"] != "127.0.0.1/8" ||
				ip["interface"] != 0.0 || ip["version"] != nil {
				t.Errorf("ADD answers %v", answer)
			}
		}
		if got, err := os.Stat(path); err != nil || !os.SameFile(own, got) {
			t.Errorf("the sandbox has %v, %v, not the namespace of the machine", got, err)
		}
		env["CNI_COMMAND"] = "CHECK"
		if code, answer := call(t, namespace, env, loopbackConfig); code != 0 {
			t.Errorf("CHECK ends with %d: %v", code, answer)
		}
		return path
	}
	first, second := sandbox("one"), sandbox("two")
	for _, path := range []string{first, second} {
		code, answer := call(t, namespace, map[string]string{"CNI_COMMAND": "DEL", "CNI_NETNS": path,
			"CNI_IFNAME": "eth0"}, loopbackConfig)
		if code != 0 || answer != nil {
			t.Errorf("DEL ends with %d: %v", code, answer)
		}
		// One mount is there, and no other below it.
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
		if err := unix.Unmount(path, unix.MNT_DETACH); err != unix.EINVAL {
			t.Errorf("a second mount is below: %v", err)
		}
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
	if code, answer := call(t, namespace, map[string]string{"CNI_COMMAND": "DEL"}, loopbackConfig); code != 0 {
		t.Errorf("DEL without a namespace ends with %d: %v", code, answer)
	}
	if out, err := exec.Command("ip", "-br", "link", "show", "lo").CombinedOutput(); err == nil &&
		strings.Contains(string(out), "DOWN") {
		t.Errorf("lo is down: %s", out)
	}
}

// mountNewNamespace mounts a new network namespace in a file, as containerd does.
func mountNewNamespace(t *testing.T, path string) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with its namespace
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			err = unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, "")
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
