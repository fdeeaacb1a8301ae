package rootfs

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/instancetype"
)

//go:embed all:files
var files embed.FS

// Write makes dir the base image that o asks for. Everything below dir is replaced; dir is complete when Write returns
// nil, and is made aside and renamed, so that it is never seen in part.
func Write(dir string, o Options) error {
	o = o.withDefaults()
	switch o.Family {
	case AL2, AL2023, Bottlerocket:
	default:
		return fmt.Errorf("write a root file system: %q is no image family (it is one of %s, %s, %s)", o.Family, AL2,
			AL2023, Bottlerocket)
	}
	next := dir + ".next"
	if err := os.RemoveAll(next); err != nil {
		return err
	}
	if err := (&writer{dir: next, o: o}).writeAll(); err != nil {
		_ = os.RemoveAll(next)
		return fmt.Errorf("write a root file system of %s for Kubernetes %s: %w", o.Family, o.KubernetesVersion, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Rename(next, dir)
}

// writer writes below dir; the first error stays and makes the rest do nothing.
type writer struct {
	dir string
	o   Options
	err error
}

// ImageFile describes the image of a machine inside it: an [Image] as JSON.
const ImageFile = "/usr/lib/coracle/image.json"

// Image is the information about its image that the programs of a machine have.
type Image struct {
	Family            string `json:"family"`
	KubernetesVersion string `json:"kubernetesVersion,omitempty"` // "1.35"; empty for an image without Kubernetes
	Release           string `json:"release"`
	Region            string `json:"region"`
	SandboxImage      string `json:"sandboxImage,omitempty"`
}

func (w *writer) writeAll() error {
	for _, d := range directories {
		w.mkdir(d)
	}
	for name, target := range links {
		w.symlink(name, target)
	}
	w.writeTree("common")
	w.writeTree(w.o.Family)
	image, err := json.MarshalIndent(Image{w.o.Family, w.o.KubernetesVersion, w.o.Release, w.o.Region,
		w.o.SandboxImage}, "", "  ")
	if err != nil {
		return err
	}
	w.writeFile(ImageFile, string(image)+"\n", 0o644)
	w.accounts()
	w.release()
	w.certificates()
	w.commands()
	w.enableUnits()
	if w.o.KubernetesVersion != "" {
		w.kubernetes()
	}
	for _, target := range w.o.targets() { // what Mounts covers
		w.writeFile(target, "", 0o755)
	}
	if w.err != nil {
		return w.err
	}
	return LinkBase(w.dir, w.o.Base)
}

// directories are there on every Linux machine; launch mounts over some of them.
var directories = []string{
	"boot", "dev", "etc", "home", "media", "mnt", "opt", "proc", "root", "run", "srv", "sys", "tmp", "var/log",
	"var/lib", "var/tmp", "var/cache", "var/spool", "usr/lib/coracle",
	"usr/local/bin", "usr/local/sbin", "usr/local/lib", "usr/local/share", "usr/local/etc",
}

// links are those of a merged /usr.
var links = map[string]string{
	"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64", "var/run": "../run",
	"var/lock": "../run/lock", "etc/mtab": "../proc/self/mounts",
	"etc/localtime": "../usr/share/zoneinfo/UTC", "etc/os-release": "../usr/lib/os-release",
}

func (w *writer) mkdir(name string) {
	if w.err == nil {
		w.err = os.MkdirAll(filepath.Join(w.dir, name), 0o755)
	}
}

func (w *writer) symlink(name, target string) {
	w.mkdir(filepath.Dir(name))
	if w.err == nil {
		w.err = os.Symlink(target, filepath.Join(w.dir, name))
	}
}

func (w *writer) writeFile(name, content string, mode os.FileMode) {
	w.mkdir(filepath.Dir(name))
	if w.err == nil {
		w.err = os.WriteFile(filepath.Join(w.dir, name), []byte(content), mode)
	}
	if w.err == nil {
		w.err = os.Chmod(filepath.Join(w.dir, name), mode) // whatever the umask
	}
}

// writeTree writes the embedded files of a kind of machine; scripts are executable.
func (w *writer) writeTree(kind string) {
	root := "files/" + kind
	if w.err != nil {
		return
	}
	w.err = fs.WalkDir(files, root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			if errors.Is(err, fs.ErrNotExist) && path == root {
				return fs.SkipAll
			}
			return err
		}
		data, err := files.ReadFile(path)
		if err != nil {
			return err
		}
		mode := os.FileMode(0o644)
		if bytes.HasPrefix(data, []byte("#!")) {
			mode = 0o755
		}
		w.writeFile(strings.TrimPrefix(path, root), string(data), mode)
		return w.err
	})
}

// accounts writes the users, without a password for anybody: the way in is the host's.
func (w *writer) accounts() {
	w.writeFile("etc/passwd", `root:x:0:0:root:/root:/bin/bash
bin:x:1:1:bin:/bin:/sbin/nologin
daemon:x:2:2:daemon:/sbin:/sbin/nologin
mail:x:8:12:mail:/var/spool/mail:/sbin/nologin
nobody:x:65534:65534:Kernel Overflow User:/:/sbin/nologin
sshd:x:74:74:Privilege-separated SSH:/usr/share/empty.sshd:/sbin/nologin
rpc:x:32:32:Rpcbind Daemon:/var/lib/rpcbind:/sbin/nologin
ec2-user:x:1000:1000:EC2 Default User:/home/ec2-user:/bin/bash
`, 0o644)
	w.writeFile("etc/group", `root:x:0:
bin:x:1:
daemon:x:2:
sys:x:3:
adm:x:4:ec2-user
tty:x:5:
disk:x:6:
mail:x:12:
wheel:x:10:ec2-user
kmem:x:9:
systemd-journal:x:190:ec2-user
users:x:100:
sshd:x:74:
rpc:x:32:
nobody:x:65534:
ec2-user:x:1000:
`, 0o644)
	w.writeFile("etc/shadow", "root:*LOCK*:14600::::::\nec2-user:!!:19000:0:99999:7:::\n", 0o600)
	w.writeFile("etc/gshadow", "root:::\nwheel:::ec2-user\nec2-user:!::\n", 0o600)
	w.writeFile("etc/sudoers",
		"Defaults !requiretty\nroot ALL=(ALL) NOPASSWD: ALL\n%wheel ALL=(ALL) NOPASSWD: ALL\nec2-user ALL=(ALL) "+
			"NOPASSWD: ALL\n", 0o440)
	for _, service := range []string{"sudo", "su", "su-l", "other", "login"} {
		w.writeFile("etc/pam.d/"+service,
			"auth sufficient pam_permit.so\naccount sufficient pam_permit.so\npassword required pam_deny.so\nsession "+
				"optional pam_permit.so\n", 0o644)
	}
	w.writeFile("etc/shells", "/bin/sh\n/bin/bash\n/usr/bin/sh\n/usr/bin/bash\n", 0o644)
	w.writeFile("etc/nsswitch.conf",
		"passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\nprotocols: files\nservices: "+
			"files\nethers: files\nrpc: files\n", 0o644)
	w.writeFile("etc/hosts",
		"127.0.0.1   localhost localhost.localdomain localhost4 localhost4.localdomain4\n::1         localhost6 "+
			"localhost6.localdomain6\n", 0o644)
	w.writeFile("etc/host.conf", "multi on\n", 0o644)
	w.writeFile("etc/resolv.conf", "", 0o644)
	w.writeFile("etc/fstab", "#\n", 0o644)
	w.writeFile("etc/profile",
		"export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n[ -f /etc/bashrc ] && [ -n "+
			"\"$BASH_VERSION\" ] && . /etc/bashrc\nfor f in /etc/profile.d/*.sh; do [ -r \"$f\" ] && . \"$f\"; done; "+
			"unset f\n", 0o644)
	w.writeFile("etc/bashrc", `[ -n "$PS1" ] && PS1="[\u@\h \W]\\$ "`+"\n", 0o644)
	w.writeFile("etc/bash.bashrc", ". /etc/bashrc\n", 0o644)
	w.writeFile("root/.bashrc", "[ -f /etc/bashrc ] && . /etc/bashrc\n", 0o644)
	w.writeFile("root/.bash_profile", "[ -f ~/.bashrc ] && . ~/.bashrc\n", 0o644)
	w.mkdir("home/ec2-user")
	if w.err == nil && os.Geteuid() == 0 {
		w.err = os.Chown(filepath.Join(w.dir, "home/ec2-user"), 1000, 1000)
	}
	for dir, mode := range map[string]os.FileMode{"root": 0o700, "home/ec2-user": 0o700, "tmp": 0o777 | os.ModeSticky,
		"var/tmp": 0o777 | os.ModeSticky} {
		if w.err == nil {
			w.err = os.Chmod(filepath.Join(w.dir, dir), mode)
		}
	}
}

// amazonLinux2023 returns the version of Amazon Linux 2023 of a day: 2023.<minor>.<day>. There is a minor version each
// quarter; 2023.8 was that of the third of 2025, 2023.10 that of the first of 2026.
// https://docs.aws.amazon.com/linux/al2023/release-notes/relnotes.html
func amazonLinux2023(day string) string {
	date, err := time.Parse("20060102", day)
	if err != nil { // the release of an image that has no date
		return "2023." + day
	}
	quarter := date.Year()*4 + int(date.Month()-1)/3
	return fmt.Sprintf("2023.%d.%s", max(0, quarter-(2026*4-10)), day)
}

// release writes what says which system this is.
func (w *writer) release() {
	day := w.o.Release[strings.LastIndexByte(w.o.Release, '-')+1:] // "1.35.4-20261105"
	osRelease, system := "", ""
	switch w.o.Family {
	case AL2:
		system = "Amazon Linux release 2 (Karoo)"
		osRelease = `NAME="Amazon Linux"
VERSION="2"
ID="amzn"
ID_LIKE="centos rhel fedora"
VERSION_ID="2"
PRETTY_NAME="Amazon Linux 2"
ANSI_COLOR="0;33"
CPE_NAME="cpe:2.3:o:amazon:amazon_linux:2"
HOME_URL="https://amazonlinux.com/"
SUPPORT_END="2026-06-30"
`
	case AL2023:
		version := amazonLinux2023(day)
		system = "Amazon Linux release " + version + " (Amazon Linux)"
		osRelease = `NAME="Amazon Linux"
VERSION="2023"
ID="amzn"
ID_LIKE="fedora"
VERSION_ID="2023"
PLATFORM_ID="platform:al2023"
PRETTY_NAME="Amazon Linux ` + version + `"
ANSI_COLOR="0;33"
CPE_NAME="cpe:2.3:o:amazon:amazon_linux:2023"
HOME_URL="https://aws.amazon.com/linux/amazon-linux-2023/"
DOCUMENTATION_URL="https://docs.aws.amazon.com/linux/"
SUPPORT_URL="https://aws.amazon.com/premiumsupport/"
BUG_REPORT_URL="https://github.com/amazonlinux/amazon-linux-2023"
VENDOR_NAME="AWS"
VENDOR_URL="https://aws.amazon.com/"
SUPPORT_END="2029-06-30"
`
	case Bottlerocket:
		version, build, _ := strings.Cut(w.o.Release, "-")
		variant := "aws-k8s-" + w.o.KubernetesVersion
		system = "Bottlerocket OS " + version
		osRelease = `NAME=Bottlerocket
ID=bottlerocket
VERSION="` + version + ` (` + variant + `)"
PRETTY_NAME="Bottlerocket OS ` + version + ` (` + variant + `)"
VARIANT_ID=` + variant + `
VERSION_ID=` + version + `
BUILD_ID=` + build + `
HOME_URL="https://github.com/bottlerocket-os/bottlerocket"
SUPPORT_URL="https://github.com/bottlerocket-os/bottlerocket/discussions"
BUG_REPORT_URL="https://github.com/bottlerocket-os/bottlerocket/issues"
`
	}
	w.writeFile("usr/lib/os-release", osRelease, 0o644)
	w.writeFile("etc/system-release", system+"\n", 0o644)
	w.writeFile("etc/issue", system+"\n", 0o644)
}

// LinkBase gives the root file system in dir what it has not itself of the node image whose files are in base, as hard
// links: nobody writes to the lower layer of machines.
func LinkBase(dir, base string) error {
	return filepath.WalkDir(base, func(from string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(base, from)
		if err != nil {
			return err
		}
		to := filepath.Join(dir, name)
		own, err := os.Lstat(to)
		switch {
		case err == nil && e.IsDir() && !own.IsDir():
			return fs.SkipDir
		case err == nil:
			return nil
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
		switch {
		case e.IsDir():
			return os.Mkdir(to, 0o755) // open to others: it is a directory of a machine's root
		case e.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(from)
			if err != nil {
				return err
			}
			return os.Symlink(target, to)
		}
		return linkOrCopy(from, to)
	})
}

// baseRoots are the certificate authorities that the node image trusts, in one file.
const baseRoots = "etc/ssl/certs/ca-certificates.crt"

// trust are the files where programs look for certificate authorities, on Amazon Linux and on Debian, whose programs
// the node image has. They are files and not links, so that pods can mount each.
var trust = []string{
	"etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "etc/pki/tls/certs/ca-bundle.crt",
	"etc/pki/tls/certs/ca-certificates.crt", "etc/pki/tls/certs/ca-bundle.trust.crt",
	"etc/pki/tls/cert.pem", "etc/ssl/ca-bundle.pem", "etc/ssl/cert.pem",
}

// certificates makes the machine trust what the node image trusts, and the daemon.
func (w *writer) certificates() {
	bundle, err := os.ReadFile(filepath.Join(w.o.Base, baseRoots))
	if err != nil {
		w.err = errors.Join(w.err, err)
		return
	}
	bundle = append(bytes.TrimRight(bundle, "\n"), '\n')
	bundle = append(bundle, w.o.CABundle...)
	w.writeFile(trust[0], string(bundle), 0o644)
	for _, name := range trust[1:] {
		w.mkdir(filepath.Dir(name))
		if w.err == nil {
			w.err = os.Link(filepath.Join(w.dir, trust[0]), filepath.Join(w.dir, name))
		}
	}
	w.symlink("etc/ssl/certs", "../pki/tls/certs")
	w.symlink("usr/lib/ssl/cert.pem", "/etc/ssl/cert.pem") // Debian's OpenSSL
	w.writeFile("etc/pki/ca-trust/source/anchors/coracle.pem", string(w.o.CABundle), 0o644)
	// Some programs bring roots of their own, and read these variables.
	variables := map[string]string{"AWS_CA_BUNDLE": "/" + trust[1], "REQUESTS_CA_BUNDLE": "/" + trust[1]}
	var defaults, exports strings.Builder
	defaults.WriteString("[Manager]\n")
	for _, name := range []string{"AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"} {
		fmt.Fprintf(&defaults, "DefaultEnvironment=%s=%s\n", name, variables[name])
		fmt.Fprintf(&exports, "export %s=%s\n", name, variables[name])
	}
	w.writeFile("etc/systemd/system.conf.d/10-trust.conf", defaults.String(), 0o644)
	w.writeFile("etc/profile.d/trust.sh", exports.String(), 0o644)
	w.writeFile("etc/environment", strings.ReplaceAll(exports.String(), "export ", ""), 0o644)
}

// commands makes the names by which coracle-node is called.
func (w *writer) commands() {
	names := []string{"bin/systemctl", "bin/journalctl", "bin/hostnamectl", "bin/imds", "sbin/init", "sbin/reboot",
		"sbin/poweroff", "sbin/halt", "sbin/shutdown", "sbin/losetup"}
	if w.o.Family != Bottlerocket {
		names = append(names, "bin/cloud-init", "bin/ec2-metadata", "sbin/mount.efs")
	}
	if w.o.KubernetesVersion != "" {
		names = append(names, "bin/eks-warm-pool")
		w.symlink("usr/sbin/runc", "../lib/coracle/coracle-runc")
		switch w.o.Family {
		case AL2:
			names = append(names, "bin/private-dns-name", "bin/provider-id")
		case AL2023:
			names = append(names, "bin/nodeadm")
		}
	}
	for _, name := range names {
		w.symlink("usr/"+name, "../lib/coracle/coracle-node")
	}
	if w.o.Family == Bottlerocket {
		w.symlink("usr/bin/cloud-init", "../lib/coracle/coracle-node") // it waits for the network
		return
	}
	for _, name := range []string{"yum", "dnf", "amazon-linux-extras"} {
		w.writeFile("usr/bin/"+name, "#!/bin/sh\necho \""+name+
			": nothing can be installed on this machine: its programs are those of Coracle's node image\" >&2\n"+
			"exit 1\n", 0o755)
	}
}

// enableUnits enables what boots.
func (w *writer) enableUnits() {
	const lib, etc = "usr/lib/systemd/system/", "etc/systemd/system/"
	w.symlink(lib+"default.target", "multi-user.target")
	network := "systemd-networkd-wait-online.service"
	if w.o.Family == AL2 {
		network = "network.service"
	}
	w.symlink(lib+"network-online.target.wants/"+network, "../"+network)
	w.symlink(lib+"multi-user.target.wants/network-online.target", "../network-online.target")
	if w.o.Family != Bottlerocket {
		w.symlink(lib+"multi-user.target.wants/cloud-init.target", "../cloud-init.target")
		for _, name := range []string{"cloud-init.service", "cloud-final.service"} {
			w.symlink(lib+"cloud-init.target.wants/"+name, "../"+name)
		}
	}
	enabled := map[string][]string{AL2023: {"nodeadm-config.service", "nodeadm-run.service"},
		Bottlerocket: {"apply-settings.service"}}
	if w.o.KubernetesVersion != "" {
		for _, name := range enabled[w.o.Family] {
			w.symlink(etc+"multi-user.target.wants/"+name, "/etc/systemd/system/"+name)
		}
	}
}

// Plugins are the CNI plugins that EKS AMIs ship in /opt/cni/bin; the VPC CNI brings its own when it comes.
var Plugins = []string{"bandwidth", "bridge", "host-local", "loopback", "portmap", "ptp"}

// kubernetes writes what an EKS AMI adds to its base.
func (w *writer) kubernetes() {
	w.writeTree("kubernetes")
	w.writeTree(w.o.Family + "-kubernetes")
	for _, dir := range []string{"etc/cni/net.d", "opt/cni/bin", "etc/kubernetes/manifests", "etc/kubernetes/pki",
		"var/lib/kubelet", "var/lib/kubernetes", "var/lib/containerd", "etc/containerd/config.d",
		"etc/eks/image-credential-provider", "etc/eks/containerd"} {
		w.mkdir(dir)
	}
	var maxPods strings.Builder
	maxPods.WriteString(
		"# Mapping is calculated from AWS EC2 API using the following formula:\n# * First IP on each ENI is not used " +
			"for pods\n# * +2 for the pods that use host-networking (AWS CNI and kube-proxy)\n#\n#   # of ENI * (# " +
			"of IPv4 per ENI - 1) + 2\n#\n# " +
			"https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/using-eni.html#AvailableIpPerENI\n#\n# If " +
			"f1.16xlarge, g3.16xlarge, h1.16xlarge, i3.16xlarge, and r4.16xlarge\n# instances use more than 31 IPv4 " +
			"or IPv6 addresses per interface,\n# they cannot access the instance metadata, VPC DNS, and Time Sync " +
			"services.\n")
	for _, t := range instancetype.All() {
		fmt.Fprintf(&maxPods, "%s %d\n", t.Name, t.MaxPods())
	}
	w.writeFile("etc/eks/eni-max-pods.txt", maxPods.String(), 0o644)
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	w.writeFile("etc/eks/release", fmt.Sprintf(
		"BASE_AMI_ID=\"%s\"\nBUILD_TIME=\"%s\"\nBUILD_KERNEL=\"%s\"\nARCH=\"%s\"\n",
		w.o.ImageID, w.o.Release, strings.TrimSpace(string(kernel)), w.o.Architecture), 0o644)
	switch w.o.Family {
	case AL2:
		w.writeFile("etc/eks/containerd/containerd-config.toml",
			ContainerdConfig(ContainerdOptions{SandboxImage: "SANDBOX_IMAGE", Imports: true}), 0o644)
		w.writeFile("etc/eks/image-credential-provider/config.json", CredentialProviderConfig(), 0o644)
	case AL2023:
		w.mkdir("etc/eks/nodeadm.d")
	}
	mirror := w.o.RegistryMirror
	if mirror == "" {
		mirror = "https://api.ecr." + w.o.Region + ".amazonaws.com"
	}
	w.writeFile("etc/containerd/certs.d/_default/hosts.toml",
		"# The registry of the host is asked for the images of every registry, and there is none to ask after "+
			"it.\nserver = \""+mirror+"\"\n\n[host.\""+mirror+"\"]\n  capabilities = [\"pull\", \"resolve\"]\n", 0o644)
	for _, name := range Plugins {
		if w.err != nil || w.o.Program == nil {
			return
		}
		path, err := w.o.Program(name)
		if err != nil {
			w.err = fmt.Errorf("find the CNI plugin %s: %w", name, err)
			return
		}
		// Files and not mounts: the VPC CNI renames its own over them.
		w.err = linkOrCopy(path, filepath.Join(w.dir, "opt/cni/bin", name))
	}
}

// linkOrCopy links a file, or copies it when it is on another file system.
func linkOrCopy(from, to string) error {
	from, err := filepath.EvalSymlinks(from)
	if err != nil {
		return err
	}
	if err := os.Link(from, to); err == nil {
		return nil
	}
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to, content, 0o600); err != nil {
		return err
	}
	return os.Chmod(to, info.Mode()&(fs.ModePerm|fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky))
}

// targets returns the files that Mounts covers.
func (o Options) targets() []string {
	var targets []string
	for name, target := range programs {
		if o.KubernetesVersion != "" || name == "coracle-node" {
			targets = append(targets, target)
		}
	}
	if o.KubernetesVersion != "" {
		targets = append(targets, kubelet, runc)
	}
	slices.Sort(targets)
	return targets
}
