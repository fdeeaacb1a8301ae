package fargate

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/guest/rootfs"
	"github.com/coracle-eks/coracle/internal/guest/rootfs/boot"
	"github.com/coracle-eks/coracle/internal/guest/rootfs/rootfstest"
	"github.com/coracle-eks/coracle/internal/guest/unit"
	"github.com/coracle-eks/coracle/internal/pki"
)

var update = flag.Bool("update", false, "write the golden files")

func demo() Config {
	return Config{
		Cluster: "demo", Region: "eu-west-1", Zone: "eu-west-1a",
		NodeName: "fargate-ip-10-0-1-2.eu-west-1.compute.internal", Address: "10.0.1.2",
		Endpoint: "https://0123456789ABCDEF.gr7.eu-west-1.eks.amazonaws.com", CertificateAuthority: "Y2VydGlmaWNhdGUK",
		ServiceCIDR: "10.100.0.0/16",
		ProviderID: "aws:///eu-west-1a/19bf1ab524-15c9a381b2364958b32dba8ceaed0cbb/" +
			"fargate-ip-10-0-1-2.eu-west-1.compute.internal",
		PodUID: "0a1b2c3d-1111-2222-3333-444455556666", CPU: 250, Memory: 512, Version: "1.35",
	}
}

// machine returns the root file system of a machine with a configuration.
func machine(t *testing.T, family string, c Config) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "root")
	if err := rootfs.Write(root, rootfs.Options{Base: rootfstest.Base(t), Family: family, KubernetesVersion: "1.35",
		Release: "1.35.4-20261105", Region: "eu-west-1", SandboxImage: "pause:3.10",
		Program: func(string) (string, error) { return "/bin/true", nil }}); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		boot.HostDir + "/" + boot.FargateFile:      string(data),
		boot.HostDir + "/" + boot.FargateTokenFile: "a-token\n",
		boot.HostDir + "/" + boot.DiskFile:         "",
		"/proc/self/uid_map":                       "0 1879048192 65536\n",
		"/sys/fs/cgroup/cgroup.controllers":        "cpu memory\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// snapshot returns files by their names, with modes and targets of links.
func snapshot(t *testing.T, root string) map[string]string {
	t.Helper()
	files := map[string]string{}
	var own syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &own); err != nil {
		t.Fatal(err)
	}
	if err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name := strings.TrimPrefix(path, root)
		if e.Type()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(path)
			files[name] = "link to " + target + "\n"
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		files[name] = fmt.Sprintf("mode %o\n%s", info.Mode().Perm(), content)
		if own.Max < hardLimit { // what the machine of the test may do is no part of the configuration
			files[name] = strings.ReplaceAll(files[name], fmt.Sprintf(`"hard": %d,`, own.Max),
				fmt.Sprintf(`"hard": %d,`, hardLimit))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return files
}

func TestSetup(t *testing.T) {
	t.Parallel()
	more := demo()
	more.EFSVolumes, more.Labels = map[string]string{"files": "fs-0123456789abcdef0"}, map[string]string{"team": "a"}
	more.Taints = []string{"reserved=yes:NoSchedule"}
	more.Logging = &Logging{PodName: "web-0", Namespace: "fargate", Files: map[string]string{
		"output.conf": "[OUTPUT]\n    Name cloudwatch_logs\n    Match *\n"}}
	ipv6 := demo()
	ipv6.Address, ipv6.ServiceCIDR = "2600:1f18::2", "fd12:3456::/108"
	for name, c := range map[string]Config{"defaults": demo(), "volumes and logs": more, "IPv6": ipv6} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := machine(t, rootfs.AL2023, c)
			before := snapshot(t, root)
			var stderr bytes.Buffer
			for range 2 { // as a unit that is started again
				if err := (Setup{Root: root, Stderr: &stderr}).Run(); err != nil || stderr.Len() > 0 {
					t.Fatal(err, &stderr)
				}
			}
			after := snapshot(t, root)
			var got strings.Builder
			var names []string
			for file, content := range after {
				if before[file] != content {
					names = append(names, file)
				}
			}
			slices.Sort(names)
			for _, file := range names {
				fmt.Fprintf(&got, "== %s: %s", file, after[file])
			}
			golden := filepath.Join("testdata", strings.ReplaceAll(name, " ", "-")+".txt")
			if *update {
				if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), got.String()); d != "" {
				t.Errorf("the files are not those of %s; write them with -update (-want +got):\n%s", golden, d)
			}
			for file, content := range after {
				if before[file] != content && strings.HasPrefix(content, "mode ") &&
					!strings.HasPrefix(content, "mode 600\n") {
					t.Errorf("%s is readable by others: %.9s", file, content)
				}
			}
		})
	}
}

// TestUnits checks that the units have all that they start, on every family of images, and start no other.
func TestUnits(t *testing.T) {
	t.Parallel()
	for _, family := range []string{rootfs.AL2, rootfs.AL2023, rootfs.Bottlerocket} {
		c := demo()
		c.EFSVolumes, c.Logging = map[string]string{"files": "fs-0123456789abcdef0"}, &Logging{}
		root := machine(t, family, c)
		if err := (Setup{Root: root, Stderr: os.Stderr}).Run(); err != nil {
			t.Fatal(err)
		}
		path := []string{filepath.Join(root, "etc/systemd/system"), filepath.Join(root, "usr/lib/systemd/system")}
		wanted := map[string]bool{}
		var visit func(name string)
		visit = func(name string) {
			if wanted[name] {
				return
			}
			wanted[name] = true
			u, err := unit.Load(path, name)
			if err != nil {
				t.Errorf("%s: %v", family, err)
				return
			}
			for _, next := range slices.Concat(u.Names("Unit", "Wants"), u.Names("Unit", "Requires"), u.WantsLinks) {
				visit(next)
			}
			commands, err := u.Commands("ExecStart")
			if err != nil {
				t.Errorf("%s: %v", family, err)
			}
			for _, command := range commands {
				if _, err := os.Lstat(filepath.Join(root, command.Path)); err != nil {
					t.Errorf("%s: %s runs %v", family, name, err)
				}
			}
			for _, setting := range []struct{ section, name string }{{"Service", "EnvironmentFile"},
				{"Unit", "ConditionPathExists"}} {
				for _, file := range u.All(setting.section, setting.name) {
					if _, err := os.Stat(filepath.Join(root, file)); err != nil {
						t.Errorf("%s: %s of %s: %v", family, setting.name, name, err)
					}
				}
			}
		}
		visit("fargate.target")
		for _, name := range []string{"cloud-init.service", "cloud-final.service", "nodeadm-config.service",
			"nodeadm-run.service", "kubelet.service", "containerd.service", "apply-settings.service"} {
			if wanted[name] {
				t.Errorf("%s: the machine of a Fargate pod starts %s", family, name)
			}
		}
		if len(wanted) < 11 {
			t.Errorf("%s: only %v are started", family, wanted)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"no cluster":              {func(c *Config) { c.Cluster = "" }, "cluster"},
		"no pod":                  {func(c *Config) { c.PodUID = "" }, "podUID"},
		"no endpoint":             {func(c *Config) { c.Endpoint = "" }, "endpoint"},
		"two lines":               {func(c *Config) { c.Region = "eu-west-1\nx" }, "region"},
		"another name":            {func(c *Config) { c.NodeName = "ip-10-0-1-2.ec2.internal" }, "fargate-"},
		"no address":              {func(c *Config) { c.Address = "x" }, `"x"`},
		"no services":             {func(c *Config) { c.ServiceCIDR = "10.100.0.0" }, "10.100.0.0"},
		"two families":            {func(c *Config) { c.Address = "2600::1" }, "IP families"},
		"an image of another":     {func(c *Config) { c.Version = "1.34" }, "1.35"},
		"no certificate":          {func(c *Config) { c.CertificateAuthority = "%" }, "certificate authority"},
		"any version will do":     {func(c *Config) { c.Version = "" }, ""},
		"nothing is wrong at all": {func(*Config) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := demo()
			test.change(&c)
			err := Setup{Root: machine(t, rootfs.AL2023, c), Stderr: os.Stderr}.Run()
			if (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, want %q", err, test.want)
			}
		})
	}
}

func TestCredentialProcess(t *testing.T) {
	t.Parallel()
	root := machine(t, rootfs.AL2023, demo())
	answer, status := "", http.StatusOK
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "a-token" || r.Method != http.MethodGet {
			t.Errorf("it asks %s with %v", r.Method, r.Header)
		}
		w.WriteHeader(status)
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(server.Close)
	trust := func(certificate []byte) {
		if err := os.WriteFile(filepath.Join(root, authorities),
			pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	trust(server.Certificate().Raw)
	for _, test := range []struct {
		answer string
		status int
		want   string // a part of the output, or of the error
		fails  bool
	}{
		{`{"AccessKeyId":"ASIA1","SecretAccessKey":"s","Token":"t","Expiration":"2026-11-30T12:00:00Z","RoleArn":"r"}`, 200,
			`{"Version":1,"AccessKeyId":"ASIA1","SecretAccessKey":"s","SessionToken":"t","Expiration":"2026-11-30T12:00:00Z"}`,
			false},
		{`{"code":"AccessDenied","message":"the trust policy refuses"}`, 403, "the trust policy refuses", true},
		{`{"Code":"Failed","Message":"no role"}`, 200, "Failed: no role", true},
		{`not found`, 404, "404 Not Found", true},
		{`{`, 200, "unexpected end", true},
	} {
		answer, status = test.answer, test.status
		var out bytes.Buffer
		err := credentialProcess{url: server.URL, root: root}.print(t.Context(), &out)
		if (err != nil) != test.fails || err != nil && !strings.Contains(err.Error(), test.want) ||
			err == nil && !strings.Contains(out.String(), test.want) {
			t.Errorf("%s: it prints %q, and fails by %v; want %q", test.answer, &out, err, test.want)
		}
	}
	if err := (credentialProcess{url: server.URL, root: t.TempDir()}).print(t.Context(), &bytes.Buffer{}); err == nil {
		t.Error("it asks without a token")
	}

	// The pod answers at the address, and another's certificate is not the host's.
	var asked atomic.Int32
	pod := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		fmt.Fprint(w, `{"AccessKeyId":"ASIAPOD","SecretAccessKey":"s"}`)
	}))
	pod.Config.ErrorLog = log.New(io.Discard, "", 0)
	pod.StartTLS()
	t.Cleanup(pod.Close)
	authority, err := pki.OpenAuthority(t.TempDir(), "ca", "coracle")
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(authority.PEM)
	trust(block.Bytes)
	if err := (credentialProcess{url: pod.URL, root: root}).print(t.Context(), &bytes.Buffer{}); err == nil ||
		!strings.Contains(err.Error(), "unknown authority") || asked.Load() != 0 {
		t.Errorf("the pod is asked %d times: %v", asked.Load(), err)
	}
}

func TestUnknownCommands(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if code := Main([]string{"join"}, &out, &out); code != 2 || !strings.Contains(out.String(), "usage") {
		t.Errorf("an unknown command ends with %d: %s", code, &out)
	}
}
