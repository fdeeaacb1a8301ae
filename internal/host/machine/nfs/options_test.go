package nfs

import (
	"encoding/base64"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/host/mountgrant"
)

func TestParse(t *testing.T) {
	t.Parallel()
	const (
		id   = "fs-0123456789abcdef0"
		name = id + ".efs.eu-west-1.amazonaws.com"
	)
	signed := base64.RawURLEncoding.EncodeToString([]byte("Action=Connect&X-Amz-Signature=1"))
	at := func(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }
	for _, test := range []struct {
		name, kind, source, options string
		want                        wish
	}{
		{"an address", "nfs4", "10.0.1.5:/", "", wish{server: at("10.0.1.5:2049"), path: "/"}},
		{"what mount.nfs4 calls", "nfs4", name + ":/a/b/", "vers=4.1,rsize=1048576,wsize=1048576,hard,timeo=600," +
			"retrans=2,noresvport,addr=10.0.1.5,clientaddr=10.0.1.9",
			wish{at("10.0.1.5:2049"), "/a/b", mountgrant.Request{FileSystemID: id}}},
		{"what the AWS documentation says", "nfs", "eu-west-1a." + name + ":/",
			"nfsvers=4.1,rsize=1048576,wsize=1048576,hard,timeo=600,retrans=2,noresvport,addr=10.0.1.5",
			wish{at("10.0.1.5:2049"), "/", mountgrant.Request{FileSystemID: id}}},
		{"what mount.efs calls", "efs", name + ":/", "addr=10.0.1.5,tls,accesspoint=fsap-0123456789abcdef0,connect=" + signed,
			wish{at("10.0.1.5:2049"), "/", mountgrant.Request{FileSystemID: id, AccessPointID: "fsap-0123456789abcdef0",
				TLS: true, Signed: "Action=Connect&X-Amz-Signature=1"}}},
		{"a port", "nfs4", "127.0.0.1:/", "port=20049", wish{server: at("127.0.0.1:20049"), path: "/"}},
		{"the default port", "nfs4", "127.0.0.1:/", "port=0", wish{server: at("127.0.0.1:2049"), path: "/"}},
		{"IPv6", "nfs4", "[2001:db8::1]:/x", "proto=tcp6", wish{server: at("[2001:db8::1]:2049"), path: "/x"}},
		{"a path that leads out", "nfs4", "10.0.1.5:/../../etc", "", wish{server: at("10.0.1.5:2049"), path: "/etc"}},
		{"a path without a slash", "nfs4", "10.0.1.5:a", "", wish{server: at("10.0.1.5:2049"), path: "/a"}},
		{"a name of somebody else", "nfs4", "nfs.example.com:/", "addr=192.0.2.1",
			wish{server: at("192.0.2.1:2049"), path: "/"}},
		{"options of fstab", "nfs4", "10.0.1.5:/", "_netdev,x-systemd.automount,defaults",
			wish{server: at("10.0.1.5:2049"), path: "/"}},
	} {
		got, err := parse(test.kind, test.source, test.options)
		if err != nil || got != test.want {
			t.Errorf("%s: %+v, %v, want %+v", test.name, got, err, test.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, kind, source, options, says string
		is                                error
	}{
		{"no directory", "nfs4", "10.0.1.5", "", "HOST:/DIRECTORY", nil},
		{"no host", "nfs4", ":/", "", "HOST:/DIRECTORY", nil},
		{"an address that does not end", "nfs4", "[::1:/", "", "HOST:/DIRECTORY", nil},
		{"a name without an address", "nfs4", "fs-0123456789abcdef0.efs.eu-west-1.amazonaws.com:/", "", "addr", nil},
		{"NFS 3", "nfs", "10.0.1.5:/", "vers=3", "vers=3", errVersion},
		{"NFS 4.2", "nfs", "10.0.1.5:/", "vers=4.2", "4.1", errVersion},
		{"a minor version", "nfs4", "10.0.1.5:/", "minorversion=2", "minorversion=2", errVersion},
		{"UDP", "nfs", "10.0.1.5:/", "proto=udp", "proto=udp", errVersion},
		{"Kerberos", "nfs4", "10.0.1.5:/", "sec=krb5", "sec=sys", errOption},
		{"a port that is none", "nfs4", "10.0.1.5:/", "port=70000", "port=70000", errOption},
		{"an unknown option", "nfs4", "10.0.1.5:/", "hard,fast", "fast", errOption},
		{"an access point without mount.efs", "nfs4", "10.0.1.5:/", "accesspoint=fsap-0123456789abcdef0", "accesspoint",
			errOption},
		{"no access point", "efs", "10.0.1.5:/", "accesspoint=fs-0123456789abcdef0", "access point", nil},
		{"a signature that is none", "efs", "10.0.1.5:/", "connect=%%", "signed request", nil},
	} {
		got, err := parse(test.kind, test.source, test.options)
		if err == nil || !strings.Contains(err.Error(), test.says) || test.is != nil && !errors.Is(err, test.is) {
			t.Errorf("%s: %+v, %v, want an error that says %q", test.name, got, err, test.says)
		}
	}
}
