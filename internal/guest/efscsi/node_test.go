//go:build linux

package efscsi

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/guest/csidriver"
	"github.com/coracle-eks/coracle/internal/guest/csidriver/csidrivertest"
)

const point = "fsap-0123456789abcdef0"

// failingMounter cannot mount.
type failingMounter struct{ *csidrivertest.Mounter }

func (failingMounter) Mount(string, string, string, []string) error {
	return errors.New("access denied by server")
}

func TestIDsOfVolumes(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]volume{
		fileSystem:                                   {fileSystem, "", ""},
		fileSystem + ":":                             {fileSystem, "", ""},
		fileSystem + "::":                            {fileSystem, "", ""},
		fileSystem + ":/data":                        {fileSystem, "/data", ""},
		fileSystem + ":data/../x/":                   {fileSystem, "x", ""},
		fileSystem + "::" + point:                    {fileSystem, "", point},
		fileSystem + ":/data:" + point:               {fileSystem, "/data", point},
		"efs:" + fileSystem:                          {fileSystem, "", ""},
		"efs:" + fileSystem + "::" + point:           {fileSystem, "", point},
		"efs:" + fileSystem + ":/a:" + point:         {fileSystem, "/a", point},
		"fs-abcd1234":                                {"fs-abcd1234", "", ""},
		"":                                           {},
		"efs":                                        {},
		"efs:":                                       {},
		"fs-abcd123":                                 {},
		"fs-ABCD1234":                                {},
		"fs-abcd1234/":                               {},
		"vol-0123456789abcdef0":                      {},
		fileSystem + "::" + fileSystem:               {},
		fileSystem + "::" + point + ":":              {},
		"efs:" + fileSystem + "::" + point + ":":     {},
		"s3files:" + fileSystem + "::" + point:       {},
		"efs:efs:" + fileSystem:                      {},
		fileSystem + "::fsap-x":                      {},
		fileSystem + "::" + point + " ":              {},
		"efs:" + fileSystem + "::fsap-0123456789abc": {fileSystem, "", "fsap-0123456789abc"},
	} {
		got, err := parseVolume(id)
		if (err == nil) != (want != volume{}) || err != nil && status.Code(err) != codes.InvalidArgument ||
			err == nil && got != want {
			t.Errorf("%q: %+v, %v; want %+v", id, got, err, want)
		}
	}
}

func TestMountsOfNodes(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		id         string
		attributes map[string]string
		flags      []string
		read       bool
		mode       csi.VolumeCapability_AccessMode_Mode
		source     string
		options    string
		says       string // of the error InvalidArgument
	}{
		"a file system": {id: fileSystem, source: fileSystem + ":/", options: "[tls]"},
		"a path":        {id: fileSystem + ":/data", source: fileSystem + ":/data", options: "[tls]"},
		"an access point": {id: "efs:" + fileSystem + "::" + point, source: fileSystem + ":/",
			options: "[accesspoint=" + point + " tls]"},
		"a path of an access point": {id: fileSystem + ":/sub:" + point, source: fileSystem + ":/sub",
			options: "[accesspoint=" + point + " tls]"},
		"what the provisioner made": {id: "efs:" + fileSystem + "::" + point, attributes: map[string]string{
			"storage.kubernetes.io/csiProvisionerIdentity": "1234-efs.csi.aws.com"}, source: fileSystem + ":/",
			options: "[accesspoint=" + point + " tls]"},
		"not encrypted": {id: fileSystem, attributes: map[string]string{"encryptInTransit": "false"},
			source: fileSystem + ":/", options: "[]"},
		"encrypted": {id: fileSystem, attributes: map[string]string{"encryptInTransit": "true"},
			source: fileSystem + ":/", options: "[tls]"},
		"an access point is encrypted": {id: fileSystem + "::" + point, attributes: map[string]string{
			"encryptInTransit": "false"}, source: fileSystem + ":/", options: "[accesspoint=" + point + " tls]"},
		"options": {id: fileSystem, flags: []string{"tls", "IAM", "noatime,awscredsuri=/x", "iam"},
			source: fileSystem + ":/", options: "[tls iam noatime]"},
		"to read":      {id: fileSystem, read: true, source: fileSystem + ":/", options: "[tls ro]"},
		"for one node": {id: fileSystem, mode: once, source: fileSystem + ":/", options: "[tls]"},
		"an access point as an option": {id: fileSystem, flags: []string{"tls", "accesspoint=" + point},
			source: fileSystem + ":/", options: "[tls accesspoint=" + point + "]"},
		"the same twice": {id: fileSystem + "::" + point, flags: []string{"accesspoint=" + point},
			source: fileSystem + ":/", options: "[accesspoint=" + point + " tls]"},
		"an address": {id: fileSystem, attributes: map[string]string{"mounttargetip": "10.0.0.7"},
			source: fileSystem + ":/", options: "[mounttargetip=10.0.0.7 tls]"},
		"an address of the zone": {id: fileSystem, attributes: map[string]string{
			"mounttargetipmap": `{"eu-west-1a":"10.0.0.7","eu-west-1b":"10.0.0.8"}`}, source: fileSystem + ":/",
			options: "[mounttargetip=10.0.0.7 tls]"},
		"an address of another zone": {id: fileSystem, attributes: map[string]string{
			"mounttargetipmap": `{"eu-west-1b":"10.0.0.8"}`}, source: fileSystem + ":/",
			options: "[mounttargetip=10.0.0.8 tls]"},
		"another account": {id: fileSystem, attributes: map[string]string{"crossaccount": "true"},
			source: fileSystem + ":/", options: "[crossaccount tls]"},

		"no ID":       {id: "", says: "volume ID '' is invalid"},
		"no such ID":  {id: "vol-1", says: "Expected a file system ID of the form"},
		"S3 Files":    {id: "s3files:" + fileSystem, says: "not supported"},
		"many fields": {id: fileSystem + ":::", says: "at most three fields"},
		"attribute":   {id: fileSystem, attributes: map[string]string{"path": "/x"}, says: "property path not supported"},
		"no boolean": {id: fileSystem, attributes: map[string]string{"encryptInTransit": "perhaps"},
			says: "must be a boolean value"},
		"no boolean of an account": {id: fileSystem, attributes: map[string]string{"crossaccount": "perhaps"},
			says: "must be a boolean value"},
		"no address":   {id: fileSystem, attributes: map[string]string{"mounttargetip": "x"}, says: "not a valid IP address"},
		"no addresses": {id: fileSystem, attributes: map[string]string{"mounttargetipmap": "{"}, says: "Failed to parse"},
		"tls, and not": {id: fileSystem, attributes: map[string]string{"encryptInTransit": "false"},
			flags: []string{"tls"}, says: "Found tls in mountOptions but encryptInTransit is false"},
		"two access points": {id: fileSystem + "::" + point, flags: []string{"accesspoint=fsap-00000000000000000"},
			says: "Found conflicting access point IDs"},
		"many that read": {id: fileSystem, mode: readOnly, says: "invalid access mode: MULTI_NODE_READER_ONLY"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &csidrivertest.Mounter{}
			n := newNode(options{}, csidriver.Node{Zone: "eu-west-1a"}, m)
			target := filepath.Join(t.TempDir(), "pods/1/mount")
			if x.mode == 0 {
				x.mode = many
			}
			r := &csi.NodePublishVolumeRequest{VolumeId: x.id, TargetPath: target, VolumeContext: x.attributes,
				Readonly: x.read, VolumeCapability: mode(x.mode, x.flags...)}
			for range 2 { // the second time it is there
				_, err := n.NodePublishVolume(t.Context(), r)
				if x.says != "" {
					if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), x.says) || m.Count() > 0 {
						t.Errorf("%v, want InvalidArgument that says %q", err, x.says)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if source := m.Source(target); source != x.source || !slices.Equal(m.Calls(), []string{x.options}) {
				t.Errorf("mounted %s with %s, want %s with %s", source, m.Calls(), x.source, x.options)
			}
			for range 2 {
				if _, err := n.NodeUnpublishVolume(t.Context(), &csi.NodeUnpublishVolumeRequest{VolumeId: x.id,
					TargetPath: target}); err != nil || m.Count() > 0 {
					t.Errorf("%v, with %d mounts", err, m.Count())
				}
			}
			if _, err := os.Stat(target); err == nil {
				t.Error("the directory is left")
			}
		})
	}
}

func TestMountsThatFail(t *testing.T) {
	t.Parallel()
	n := newNode(options{}, csidriver.Node{}, failingMounter{&csidrivertest.Mounter{}})
	target := filepath.Join(t.TempDir(), "mount")
	_, err := n.NodePublishVolume(t.Context(), &csi.NodePublishVolumeRequest{VolumeId: fileSystem, TargetPath: target,
		VolumeCapability: mode(many)})
	if status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "access denied by server") {
		t.Error(err)
	}
	if _, err := os.Stat(target); err == nil {
		t.Error("the directory is left")
	}
}

// blockedMounter mounts when it is told to.
type blockedMounter struct {
	*csidrivertest.Mounter
	began, proceed chan struct{}
}

func (m blockedMounter) Mount(source, target, kind string, options []string) error {
	m.began <- struct{}{}
	<-m.proceed
	return m.Mounter.Mount(source, target, kind, options)
}

func TestMountsAtATime(t *testing.T) {
	t.Parallel()
	m := blockedMounter{&csidrivertest.Mounter{}, make(chan struct{}), make(chan struct{})}
	n := newNode(options{limitMounts: true, maxMounts: 1}, csidriver.Node{}, m)
	dir := t.TempDir()
	publish := func(name string) error {
		_, err := n.NodePublishVolume(t.Context(), &csi.NodePublishVolumeRequest{VolumeId: fileSystem,
			TargetPath: filepath.Join(dir, name), VolumeCapability: mode(many)})
		return err
	}
	first := make(chan error)
	go func() { first <- publish("one") }()
	<-m.began
	if err := publish("two"); status.Code(err) != codes.Aborted {
		t.Errorf("%v, want Aborted", err)
	}
	close(m.proceed)
	if err := <-first; err != nil {
		t.Error(err)
	}
}

func TestWhatANodeIs(t *testing.T) {
	t.Parallel()
	who := csidriver.Node{Instance: "i-1", Zone: "eu-west-1a"}
	for _, o := range []options{{}, {metrics: true, limitVolumes: true, maxVolumes: 7}} {
		n := newNode(o, who, &csidrivertest.Mounter{})
		info, err := n.NodeGetInfo(t.Context(), &csi.NodeGetInfoRequest{})
		if err != nil || info.GetNodeId() != "i-1" || info.GetMaxVolumesPerNode() != o.maxVolumes ||
			!maps.Equal(info.GetAccessibleTopology().GetSegments(), map[string]string{"topology.kubernetes.io/zone": who.Zone}) {
			t.Errorf("%+v: %v, %v", o, info, err)
		}
		can, err := n.NodeGetCapabilities(t.Context(), &csi.NodeGetCapabilitiesRequest{})
		if err != nil || (len(can.GetCapabilities()) > 0) != o.metrics {
			t.Errorf("%+v: %v, %v", o, can, err)
		}
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	content := make([]byte, 1<<20)
	for i := range content {
		content[i] = byte(i)
	}
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "file"), content, 0o600),
		os.Link(filepath.Join(dir, "file"), filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	n := newNode(options{metrics: true, measuring: 1, refresh: time.Hour}, csidriver.Node{}, &csidrivertest.Mounter{})
	n.usage.done = done
	stats := func() *csi.VolumeUsage {
		t.Helper()
		out, err := n.NodeGetVolumeStats(t.Context(), &csi.NodeGetVolumeStatsRequest{VolumeId: fileSystem, VolumePath: dir})
		if err != nil {
			t.Fatal(err)
		}
		return out.GetUsage()[0]
	}
	if u := stats(); u.GetUnit() != csi.VolumeUsage_UNKNOWN {
		t.Errorf("before it is counted, there is %v", u)
	}
	eventually.True(t, "the volume is counted", func() bool { return stats().GetUnit() == csi.VolumeUsage_BYTES })
	if u := stats(); u.GetUsed() < 1<<20 || u.GetUsed() >= 2<<20 || u.GetTotal() != 1<<30 {
		t.Errorf("a file of 1 MiB with two names takes %v", u)
	}
	n.usage.forget(dir)
	if u := stats(); u.GetUnit() != csi.VolumeUsage_UNKNOWN {
		t.Errorf("after it was unmounted, there is %v", u)
	}
	n.usage.counting.Wait()
	close(done)
	if _, err := countBytes(dir, done); !errors.Is(err, errStopped) {
		t.Errorf("at the end it goes on: %v", err)
	}
	if _, err := n.NodeGetVolumeStats(t.Context(), &csi.NodeGetVolumeStatsRequest{VolumeId: fileSystem,
		VolumePath: dir + "/no"}); status.Code(err) != codes.NotFound {
		t.Errorf("%v, want NotFound", err)
	}
}

func TestFlags(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]map[string]string{
		"":                    {},
		"team:a env:prod":     {"team": "a", "env": "prod"},
		"key:":                {"key": ""},
		"key":                 {"key": ""},
		`a\:b:c\ d\\`:         {"a:b": `c d\`},
		"aws\\:team:x efs:y ": {"aws:team": "x", "efs": "y"},
		"a:b:c d:e":           {"d": "e"},
	} {
		got, ignored := parseTags(text)
		if !maps.Equal(got, want) || (len(ignored) > 0) != (text == "a:b:c d:e") {
			t.Errorf("%q: %v, without %q; want %v", text, got, ignored, want)
		}
	}
	// Those of upstream's manifests.
	var o options
	if err := o.flags().Parse([]string{"--endpoint=unix:/csi/csi.sock", "--logtostderr", "--vol-metrics-opt-in=true",
		"--vol-metrics-refresh-period=10", "--vol-metrics-fs-rate-limit=2", "--max-inflight-mount-calls-opt-in=false",
		"--max-inflight-mount-calls=10", "--volume-attach-limit-opt-in=false", "--volume-attach-limit=20",
		"--force-unmount-after-timeout=false", "--unmount-timeout=30s", "--debug-logs=false",
		"--efs-cloudwatch-log-enabled=false", "--s3files-cloudwatch-log-enabled=true",
		"--s3files-cloudwatch-metrics-enabled=true", "--delete-access-point-root-dir=true", "--tags=a:b c:d",
		"--http-endpoint=0.0.0.0:3301", "--adaptive-retry-mode=false"}); err != nil {
		t.Fatal(err)
	}
	if !o.metrics || o.refresh != 10*time.Minute || o.measuring != 2 || !o.deleteRoot || len(o.tags) != 2 ||
		o.check() != nil {
		t.Errorf("%+v", o)
	}
	for _, bad := range []options{{limitMounts: true}, {limitVolumes: true, maxVolumes: -1}} {
		if bad.check() == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}
