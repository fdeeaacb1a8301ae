package cloudinit

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/guest/imds/imdstest"
	"github.com/coracle-eks/coracle/internal/testenv"
)

func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	w.Close()
	return b.String()
}

// bomb returns an archive of parts that are 4 MiB each when they are decompressed.
func bomb(parts int) string {
	part := "--x\nContent-Type: text/plain\nContent-Transfer-Encoding: base64\n\n" +
		base64.StdEncoding.EncodeToString([]byte(zipped("#!"+strings.Repeat("x", 4<<20)))) + "\n"
	return "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=x\n\n" + strings.Repeat(part, parts) + "--x--\n"
}

const archive = `MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="==B=="

--==B==
Content-Type: text/x-shellscript; charset="us-ascii"
Content-Disposition: attachment; filename="first.sh"

#!/bin/sh
echo first

--==B==
Content-Type: text/cloud-config

runcmd: [echo run]

--==B==
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
--==B==
Content-Transfer-Encoding: base64

` + "IyEvYmluL3NoCmVjaG8gc2Vjb25kCg==" + `
--==B==--
`

func TestParse(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, data string
		want       string // "type name", and so on
		err        string
	}{
		{"nothing", "", "", ""},
		{"a script", "#!/bin/sh\necho\n", "text/x-shellscript part-001", ""},
		{"a compressed script", zipped("#!/bin/sh\necho\n"), "text/x-shellscript part-001", ""},
		{"a script in base64", base64.StdEncoding.EncodeToString([]byte("#!/bin/sh\necho\n")),
			"text/x-shellscript part-001", ""},
		{"cloud-config", "#cloud-config\nruncmd: []\n", "text/cloud-config part-001", ""},
		{"an archive", archive,
			"text/x-shellscript first.sh, text/cloud-config part-002, application/node.eks.aws part-003, " +
				"text/x-shellscript part-004", ""},
		{"a compressed archive", zipped(archive),
			"text/x-shellscript first.sh, text/cloud-config part-002, application/node.eks.aws part-003, " +
				"text/x-shellscript part-004", ""},
		{"a NodeConfig", "---\napiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n",
			"application/node.eks.aws part-001", ""},
		{"an include", "#include\nhttp://example.com/\n", "text/x-include-url part-001", ""},
		{"a boothook", "#cloud-boothook\n#!/bin/sh\n", "text/cloud-boothook part-001", ""},
		{"something else", "hello", " part-001", ""},
		{"an archive without a boundary", "MIME-Version: 1.0\nContent-Type: multipart/mixed\n\n--x\n", "",
			"no boundary"},
		{"an archive that is cut off", "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=x\n\nnothing\n", "",
			"MIME archive"},
		{"broken compression", "\x1f\x8bnot", "", "decompress user data"},
		{"more than is decompressed", zipped(strings.Repeat("x", maxUserData+1)), "",
			"decompress user data: it is more than 10 MiB"},
		{"compressed parts that are too much together", bomb(3), "", "the parts of the user data are more than 10 MiB"},
		{"too many parts", "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=x\n\n" +
			strings.Repeat("--x\n\n#!/bin/sh\n", maxParts+1) + "--x--\n", "", "more than 1000 parts"},
	} {
		parts, err := Parse([]byte(test.data))
		var got []string
		for _, p := range parts {
			got = append(got, p.Type+" "+p.Filename)
		}
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s: error %v, want %q", test.name, err, test.err)
			}
		} else if err != nil || strings.Join(got, ", ") != test.want {
			t.Errorf("%s: %q, %v, want %q", test.name, got, err, test.want)
		}
	}
}

// bootOver runs a boot with user data over root, and returns what is on the console.
func bootOver(t *testing.T, root, userData string) (console string, errs []string) {
	t.Helper()
	for name, content := range map[string]string{"etc/passwd": "root:x:0:0:root:/root:/bin/bash\nec2-user:x:1000:1000::/home/ec2-user:/bin/bash\n", "etc/group": "root:x:0:\n"} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	answers := map[string]string{"meta-data/instance-id": "i-1", "meta-data/local-hostname": "ip-10-0-0-4.ec2.internal",
		"meta-data/public-keys/0/openssh-key": "ssh-ed25519 AAAA user"}
	if userData != "" {
		answers["user-data"] = strings.ReplaceAll(userData, "ROOT", root)
	}
	var out bytes.Buffer
	client := imdstest.Fake(t, answers)
	s := &Stage{IMDS: client, Root: root, Console: &out}
	if err := s.Init(context.Background()); err != nil {
		t.Fatal(err)
	}
	s = &Stage{IMDS: client, Root: root, Console: &out}
	_ = s.Final(context.Background())
	return out.String(), s.Errors
}

func read(t *testing.T, root, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Error(err)
	}
	return string(data)
}

func TestScriptsRunOnceInOrder(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	userData := strings.NewReplacer("echo first", "echo first >> ROOT/order; echo to the console", "[echo run]",
		"['echo run >> ROOT/order']").Replace(archive)
	userData = strings.Replace(userData, "IyEvYmluL3NoCmVjaG8gc2Vjb25kCg==",
		base64.StdEncoding.EncodeToString([]byte("#!/bin/sh\necho second >> "+root+"/order\n")), 1)
	console, errs := bootOver(t, root, userData)
	if len(errs) != 0 || !strings.Contains(console, "to the console\n") {
		t.Errorf("console %q, errors %q", console, errs)
	}
	if got := read(t, root, "order"); got != "first\nsecond\nrun\n" {
		t.Errorf("the order is %q", got)
	}
	if log := read(t, root, "var/log/cloud-init-output.log"); !strings.Contains(log, "to the console\n") ||
		!strings.Contains(log, "Cloud-init v. 22.2.2 finished") {
		t.Errorf("the log is %q", log)
	}
	bootOver(t, root, userData) // a reboot
	if got := read(t, root, "order"); got != "first\nsecond\nrun\n" {
		t.Errorf("after a reboot the order is %q", got)
	}
	if got := read(t, root, "etc/hostname"); got != "ip-10-0-0-4.ec2.internal\n" {
		t.Errorf("the host name is %q", got)
	}
	if got := read(t, root, "home/ec2-user/.ssh/authorized_keys"); got != "ssh-ed25519 AAAA user\n" {
		t.Errorf("the keys are %q", got)
	}
}

func TestCloudConfig(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t) // it makes users and gives them files
	root := t.TempDir()
	console, errs := bootOver(t, root, `#cloud-config
hostname: mine.example.com
write_files:
- path: /etc/app/plain
  content: |
    hello
  permissions: '0600'
- path: /etc/app/encoded
  encoding: b64
  content: aGVsbG8=
- path: /etc/app/compressed
  encoding: gz+b64
  content: `+base64.StdEncoding.EncodeToString([]byte(zipped("hello")))+`
- {path: /etc/app/plain, content: more, append: true}
- {path: relative, content: x}
bootcmd:
- echo boot >> ROOT/boot
runcmd:
- [sh, -c, 'echo "$0 $1" > ROOT/ran', "it's", b]
packages: [nginx]
disk_setup: {}
users:
- default
- {name: alice, ssh_authorized_keys: [ssh-rsa BBBB]}
`)
	if got := read(t, root, "etc/app/plain") + read(t, root, "etc/app/encoded") +
		read(t, root, "etc/app/compressed"); got != "hello\nmorehellohello" {
		t.Errorf("the files are %q", got)
	}
	if info, err := os.Stat(filepath.Join(root, "etc/app/encoded")); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v", info, err)
	}
	if got := read(t, root, "ran"); got != "it's b\n" {
		t.Errorf("runcmd made %q", got)
	}
	if got := read(t, root, "etc/hostname"); got != "mine.example.com\n" {
		t.Errorf("the host name is %q", got)
	}
	if got := read(t, root, "home/alice/.ssh/authorized_keys"); got != "ssh-rsa BBBB\n" {
		t.Errorf("alice's keys are %q", got)
	}
	for _, want := range []string{
		"packages: nothing is installed: an instance has the programs of the node image; run what it lacks in a container",
		"cloud-config key disk_setup is not applied",
	} {
		if !strings.Contains(console, want) {
			t.Errorf("the console has no %q: %s", want, console)
		}
	}
	if len(errs) != 1 || !strings.Contains(errs[0], `the path "relative" is not absolute`) {
		t.Errorf("the errors are %q", errs)
	}
	bootOver(t, root, "#cloud-config\nbootcmd:\n- echo boot >> ROOT/boot\n")
	if got := read(t, root, "boot"); got != "boot\nboot\n" {
		t.Errorf("bootcmd made %q, want it at both boots", got)
	}
	if got := read(t, root, "etc/hostname"); got != "mine.example.com\n" {
		t.Errorf("after a reboot the host name is %q", got)
	}
}

func TestWhatGoesWrongIsSaid(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ userData, want string }{
		"a script that fails": {"#!/bin/sh\nexit 7\n",
			"Failed running /var/lib/cloud/instance/scripts/part-001 [exit status 7]"},
		"an interpreter that is not there": {"#!/usr/bin/nothing\n",
			`does its first line name a program that exists? "#!/usr/bin/nothing"`},
		"cloud-config that is no YAML": {"#cloud-config\na: [b\n", "Failed loading yaml blob"},
		"cloud-config that is no map":  {"#cloud-config\n- a\n", "allows dict root types"},
		"a broken archive": {"MIME-Version: 1.0\nContent-Type: multipart/mixed\n\n--x\n",
			"has no boundary"},
		"an include": {"#include\nhttp://example.com/x\n", "#include is refused"},
		"a jinja template": {"## template: jinja\n#!/bin/sh\n",
			"Unhandled non-multipart (text/jinja2) userdata"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			console, errs := bootOver(t, root, test.userData)
			if len(errs) == 0 || !strings.Contains(console, test.want) ||
				!strings.Contains(strings.Join(errs, "\n"), test.want) {
				t.Errorf("console %q, errors %q, want %q in both", console, errs, test.want)
			}
			if result := read(t, root, "run/cloud-init/result.json"); !strings.Contains(result, `"errors": [`) ||
				strings.Contains(result, `"errors": []`) {
				t.Errorf("result.json is %s", result)
			}
		})
	}
	for name, test := range map[string]struct{ userData, want string }{
		"something else": {"hello world", "Unhandled non-multipart (text/x-not-multipart) userdata: 'hello world...'"},
	} {
		if console, errs := bootOver(t, t.TempDir(), test.userData); len(errs) != 0 ||
			!strings.Contains(console, test.want) {
			t.Errorf("%s: console %q, errors %q", name, console, errs)
		}
	}
}

func TestWhatAScriptLeavesRunningIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	console, errs := bootOver(t, root, "#!/bin/sh\necho $$ > ROOT/pid\nsleep 600 &\necho $! > ROOT/left\necho done\n")
	if len(errs) != 0 || !strings.Contains(console, "done\n") {
		t.Errorf("console %q, errors %q", console, errs)
	}
	var pid int
	if _, err := fmt.Sscan(read(t, root, "left"), &pid); err == nil {
		p, _ := os.FindProcess(pid)
		_ = p.Kill()
	}
}
