package nfs

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/coracle-eks/coracle/internal/host/mountgrant"
)

// Errors of options.
var (
	errOption  = errors.New("is no option of mounts of EFS file systems")
	errVersion = errors.New("EFS speaks NFS 4.0 and 4.1 over TCP")
)

// wish is what mount(2) asks for.
type wish struct {
	server  netip.AddrPort
	path    string // in the file system or below the root of the access point; absolute and clean
	request mountgrant.Request
}

// ignored are options of NFS that the kernel takes and that have no effect here: how to speak with a server, and what
// to cache of it. https://man7.org/linux/man-pages/man5/nfs.5.html
var ignored = []string{"rsize", "wsize", "bsize", "hard", "soft", "softerr", "softreval", "nosoftreval", "timeo",
	"retrans", "retry", "resvport", "noresvport", "tcp", "clientaddr", "mountaddr", "mounthost", "mountport", "mountproto",
	"mountvers", "actimeo", "acregmin", "acregmax", "acdirmin", "acdirmax", "ac", "noac", "cto", "nocto", "lookupcache",
	"lock", "nolock", "local_lock", "sharecache", "nosharecache", "fsc", "nofsc", "bg", "fg", "intr", "nointr",
	"nconnect", "max_connect", "rdirplus", "nordirplus", "acl", "noacl", "migration", "nomigration", "namlen", "posix",
	"nodiratime", "sloppy", "write", "trunkdiscovery", "notrunkdiscovery", "rw", "defaults", "_netdev", "comment"}

// versions of NFS that EFS speaks.
var versions = []string{"4", "4.0", "4.1"}

// parse reads the arguments of mount(2). Its errors say which option is not served.
func parse(kind, source, options string) (w wish, err error) {
	host, dir, err := cutSource(source)
	if err != nil {
		return w, err
	}
	w.path, w.request.FileSystemID = dir, fileSystemOf(host)
	port, address := uint64(mountgrant.Port), ""
	for word := range strings.SplitSeq(options, ",") {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "":
		case "addr":
			address = value
		case "port":
			if port, err = strconv.ParseUint(value, 10, 16); err != nil {
				return w, fmt.Errorf("%q: %w", word, errOption)
			}
			if port == 0 {
				port = mountgrant.Port
			}
		case "vers", "nfsvers":
			if !slices.Contains(versions, value) {
				return w, fmt.Errorf("%q: %w", word, errVersion)
			}
		case "minorversion":
			if value != "0" && value != "1" {
				return w, fmt.Errorf("%q: %w", word, errVersion)
			}
		case "v4", "v4.0", "v4.1":
		case "v2", "v3", "v4.2", "udp", "rdma":
			return w, fmt.Errorf("%q: %w", word, errVersion)
		case "proto":
			if value != "tcp" && value != "tcp6" {
				return w, fmt.Errorf("%q: %w", word, errVersion)
			}
		case "sec":
			if value != "sys" {
				return w, fmt.Errorf("%q: %w: EFS takes sec=sys", word, errOption)
			}
		default:
			if kind == TypeEFS {
				if known, err := w.parseOwn(key, value); err != nil {
					return w, fmt.Errorf("%q: %w", word, err)
				} else if known {
					continue
				}
			}
			if !slices.Contains(ignored, key) && !strings.HasPrefix(key, "x-") {
				return w, fmt.Errorf("%q %w", word, errOption)
			}
		}
	}
	if address == "" {
		address = host
	}
	server, err := netip.ParseAddr(address)
	if err != nil {
		return w, fmt.Errorf("the server %q has no address: mount it by \"mount -t %s\", which adds the option addr",
			host, kind)
	}
	w.server = netip.AddrPortFrom(server.Unmap(), uint16(port))
	return w, nil
}

// parseOwn reads the options that mount.efs adds.
func (w *wish) parseOwn(key, value string) (known bool, err error) {
	switch key {
	case OptionAccessPoint:
		if !accessPointID.MatchString(value) {
			return true, errors.New("it is no ID of an access point")
		}
		w.request.AccessPointID = value
	case OptionTLS:
		w.request.TLS = true
	case OptionConnect:
		signed, err := base64.RawURLEncoding.DecodeString(value)
		if err != nil {
			return true, errors.New("it is no signed request")
		}
		w.request.Signed = string(signed)
	default:
		return false, nil
	}
	return true, nil
}

// Types of file systems that are mounted. TypeEFS is that of mount.efs, with the options of its own.
const (
	TypeNFS  = "nfs"
	TypeNFS4 = "nfs4"
	TypeEFS  = "efs"
)

// Options by which mount.efs tells the launcher what NFS has no options for. That of the presigned query is in base64.
const (
	OptionAccessPoint = "accesspoint"
	OptionTLS         = "tls"
	OptionConnect     = "connect"
)

var (
	accessPointID = regexp.MustCompile(`^fsap-[0-9a-f]{8,40}$`)
	fileSystemDNS = regexp.MustCompile(`^(?:[a-z0-9-]+\.)?(fs-[0-9a-f]{8,40})\.efs\.[a-z0-9-]+\.amazonaws\.com(?:\.cn)?$`)
)

// cutSource cuts the source of a mount into the host and the directory: "HOST:/DIRECTORY" or "[ADDRESS]:/DIRECTORY".
func cutSource(source string) (host, dir string, err error) {
	wrong := fmt.Errorf("%q is not of the form HOST:/DIRECTORY", source)
	if rest, ok := strings.CutPrefix(source, "["); ok {
		if host, dir, ok = strings.Cut(rest, "]:"); !ok {
			return "", "", wrong
		}
	} else if host, dir, ok = strings.Cut(source, ":"); !ok {
		return "", "", wrong
	}
	if host == "" {
		return "", "", wrong
	}
	return host, path.Clean("/" + dir), nil
}

// fileSystemOf returns the ID of the file system that has a DNS name of EFS; empty for other names.
func fileSystemOf(host string) string {
	m := fileSystemDNS.FindStringSubmatch(strings.TrimSuffix(strings.ToLower(host), "."))
	if m == nil {
		return ""
	}
	return m[1]
}

// Check returns the error of arguments of mount(2) that are not served.
func Check(kind, source, options string) error {
	_, err := parse(kind, source, options)
	return err
}
