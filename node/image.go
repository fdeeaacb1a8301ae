package node

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
)

// Package is a Debian package.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Path    string `json:"path"`   // on a mirror: "pool/main/b/bash/bash_5.2.37-2+b8_amd64.deb"
	SHA256  string `json:"sha256"` // of the file, in hexadecimal
	Size    int64  `json:"size"`   // of the file, in bytes
	// Suite is SecuritySuite for a package that is from there, and else empty.
	Suite string `json:"suite,omitempty"`
}

// Suites of Debian that the packages of the node image are from: a release, and its security updates, which become part
// of the release with its next point release only. https://www.debian.org/security/faq
const (
	Suite         = "trixie"
	SecuritySuite = "trixie-security"
)

// Keyring and SecurityKeyring have the keys with which Debian signs the indexes of the suites, in ASCII armor.
var (
	//go:embed source/debian-archive-trixie-automatic.asc
	Keyring []byte
	//go:embed source/debian-archive-trixie-security-automatic.asc
	SecurityKeyring []byte
)

// WantedPackages are the packages that the AMIs of EKS have and users of nodes expect: a shell with the usual commands,
// and what the kubelet, kube-proxy, the VPC CNI and the drivers of volumes call. Packages adds their dependencies.
var WantedPackages = []string{
	"bash", "bsdutils", "coreutils", "debianutils", "diffutils", "findutils", "grep", "gzip", "hostname", "less", "libc-bin",
	"mawk", "ncurses-base", "ncurses-bin", "sed", "sysvinit-utils",
	"tar", "util-linux", "util-linux-extra", "xz-utils", "zstd",
	"login", "passwd", "sudo", "procps", "psmisc", "lsof", "kmod", "tzdata", "netbase",
	"ca-certificates", "curl", "jq", "openssl",
	"conntrack", "ethtool", "iproute2", "ipset", "iptables", "iputils-ping", "nftables", "socat",
	"e2fsprogs", "fuse3", "mount", "nfs-common", "xfsprogs",
	"runc",
}

// UnwantedPackages are dependencies of packages that a node does not need: what only maintainer scripts call, which do
// not run, and libraries of programs that UnwantedFiles names.
var UnwantedPackages = []string{
	"adduser", "base-passwd", "debconf", "dpkg", "init-system-helpers", "install-info", "libpam-runtime", "perl",
	"perl-base", "sensible-utils", "ucf", "rpcbind", "keyutils", "media-types",
	"libicu76", "python3", "python3-dbus", // xfs_scrub
}

// UnwantedFiles are left out of the packages: documentation, configuration of programs that a node has not, what the
// skeleton of a machine has itself, and a program whose library is a third of the image. Patterns are those of
// path.Match, and stand for directories with all below them.
var UnwantedFiles = []string{
	"usr/share/bash-completion", "usr/share/bug", "usr/share/doc", "usr/share/doc-base", "usr/share/info",
	"usr/share/lintian", "usr/share/locale", "usr/share/man", "usr/share/menu", "usr/share/pixmaps",
	"usr/share/polkit-1", "usr/share/zsh", "usr/share/fish", "usr/share/applications", "usr/share/gdb",
	"usr/lib/systemd", "usr/lib/udev", "usr/lib/tmpfiles.d", "usr/lib/sysusers.d", "usr/lib/init", "usr/local",
	"etc/apparmor.d", "etc/bash.bashrc", "etc/cron.*", "etc/default", "etc/init.d", "etc/logrotate.d", "etc/pam.d",
	"etc/skel", "etc/sudoers", "etc/sudoers.d", "etc/update-motd.d",
	"usr/games", "usr/include", "usr/src", "usr/sbin/xfs_scrub*", "usr/lib/*/audit", "usr/lib/*/gconv", "usr/libexec/coreutils",
	"etc/debian_version", "etc/dpkg", "etc/issue", "etc/issue.net", "etc/motd", "etc/os-release", "etc/profile",
	"etc/profile.d", "usr/lib/os-release", "usr/share/base-files",
	"boot", "dev", "home", "media", "mnt", "opt", "proc", "root", "run", "srv", "sys", "tmp", "var",
}

// WantedFiles stay although UnwantedFiles names a directory above them.
var WantedFiles = []string{"usr/share/doc/*/copyright"}

// ImageLinks returns the symbolic links, by their names, that the maintainer scripts of the packages would make, and
// those of a merged /usr.
func ImageLinks() map[string]string {
	links := map[string]string{
		"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64",
		"usr/bin/awk": "mawk", "usr/bin/nawk": "mawk", "usr/bin/pager": "less", "usr/bin/sh": "bash",
		"usr/bin/which": "which.debianutils",
	}
	for _, family := range []string{"iptables", "ip6tables"} {
		for _, verb := range []string{"", "-save", "-restore"} {
			links["usr/sbin/"+family+verb] = family + "-nft" + verb
		}
	}
	return links
}

// ImageJoined returns files of the image, by their names, with the pattern of the files that they join.
func ImageJoined() map[string]string {
	return map[string]string{"etc/ssl/certs/ca-certificates.crt": "usr/share/ca-certificates/mozilla/*.crt"}
}

//go:embed source/packages.json
var packages []byte

// Packages returns the packages of the node image for an architecture as Debian calls it ("amd64" or "arm64"), sorted
// by name. "go run ./hack/build packages" writes them anew.
func Packages(architecture string) ([]Package, error) {
	var all map[string][]Package
	if err := json.Unmarshal(packages, &all); err != nil {
		panic(fmt.Sprintf("node/source/packages.json: %v", err))
	}
	of, ok := all[architecture]
	if !ok {
		return nil, fmt.Errorf("there are no packages for a node image of %s", architecture)
	}
	return slices.Clone(of), nil
}
