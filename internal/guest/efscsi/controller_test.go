//go:build linux

package efscsi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/efs/types"
	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/coracle-eks/coracle/internal/guest/csidriver"
	"github.com/coracle-eks/coracle/internal/guest/csidriver/csidrivertest"
)

// TestSanity is the suite of the CSI for drivers, but for the refusal of another size: volumes have none.
func TestSanity(t *testing.T) {
	c, n := newController(t, &fakeEFS{}), newNode(options{metrics: true, measuring: 1}, csidriver.Node{Instance: "i-1",
		Zone: "eu-west-1a"}, &csidrivertest.Mounter{})
	defer n.usage.counting.Wait()
	csidrivertest.Sanity(t, class(map[string]string{"subPathPattern": "/foo"}), func(s *grpc.Server) {
		csi.RegisterIdentityServer(s, &csidriver.Identity{Driver: DriverName})
		csi.RegisterControllerServer(s, c)
		csi.RegisterNodeServer(s, n)
	}, "with already existing name and different capacity")
}

func newController(t *testing.T, f *fakeEFS) *controller {
	t.Helper()
	return &controller{options: options{mountDir: t.TempDir()}, efs: f, zone: "eu-west-1b",
		mounter: &csidrivertest.Mounter{},
		assume:  func(string, string) api { return f },
		kubernetes: func() (*csidriver.Kubernetes, error) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var answer any
				switch r.URL.Path {
				case "/api/v1/namespaces/web/configmaps/ids":
					answer = corev1.ConfigMap{Data: map[string]string{"shared": " " + fileSystem + "\n", "none": ""}}
				case "/api/v1/namespaces/web/secrets/ids":
					answer = corev1.Secret{Data: map[string][]byte{"shared": []byte(fileSystem)}}
				default:
					http.Error(w, "forbidden", http.StatusForbidden)
					return
				}
				_ = json.NewEncoder(w).Encode(answer)
			}))
			t.Cleanup(server.Close)
			return &csidriver.Kubernetes{Host: server.URL, Client: server.Client()}, nil
		}}
}

// class returns the parameters of a storage class with some of its own; those that are "-" are left out.
func class(own map[string]string) map[string]string {
	all := map[string]string{"provisioningMode": "efs-ap", "fileSystemId": fileSystem, "directoryPerms": "700"}
	maps.Copy(all, own)
	maps.DeleteFunc(all, func(_, value string) bool { return value == "-" })
	return all
}

// mode returns the capability of a mounted volume with an access mode.
func mode(m csi.VolumeCapability_AccessMode_Mode, flags ...string) *csi.VolumeCapability {
	return &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: m},
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{MountFlags: flags}}}
}

const (
	once     = csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
	many     = csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
	readOnly = csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
)

func request(name string, parameters map[string]string) *csi.CreateVolumeRequest {
	return &csi.CreateVolumeRequest{Name: name, Parameters: parameters,
		CapacityRange:      &csi.CapacityRange{RequiredBytes: 5 << 30},
		VolumeCapabilities: []*csi.VolumeCapability{mode(many)}}
}

// describe returns user, root directory with its permissions, and tags of an access point.
func describe(p types.AccessPointDescription) string {
	var tags []string
	for _, tag := range p.Tags {
		tags = append(tags, *tag.Key+"="+*tag.Value)
	}
	slices.Sort(tags)
	return fmt.Sprintf("%d:%d %s %s %s", *p.PosixUser.Uid, *p.PosixUser.Gid, *p.RootDirectory.Path,
		*p.RootDirectory.CreationInfo.Permissions, strings.Join(tags, " "))
}

func TestParametersOfClasses(t *testing.T) {
	t.Parallel()
	const tagged = "efs.csi.aws.com/cluster=true"
	claim := map[string]string{pvcName: "data", pvcNamespace: "web", pvName: "pvc-1"}
	with := func(own map[string]string) map[string]string {
		all := maps.Clone(claim)
		maps.Copy(all, own)
		return all
	}
	long := strings.Repeat("x", 100)
	for name, x := range map[string]struct {
		parameters map[string]string
		tags       map[string]string // of the driver
		want       string
		code       codes.Code
		says       string
	}{
		"the least": {want: "50000:50000 /pvc-1 700 " + tagged},
		"base path": {parameters: map[string]string{"basePath": "/dynamic"},
			want: "50000:50000 /dynamic/pvc-1 700 " + tagged},
		"a user": {parameters: map[string]string{"uid": "1000", "gid": "0"}, want: "1000:0 /pvc-1 700 " + tagged},
		"a user of a range": {parameters: map[string]string{"uid": "1000", "gidRangeStart": "1001", "gidRangeEnd": "1010"},
			want: "1000:1001 /pvc-1 700 " + tagged},
		"a group of its user": {parameters: map[string]string{"gid": "7"}, want: "50000:7 /pvc-1 700 " + tagged},
		"a pattern": {parameters: with(map[string]string{"subPathPattern": "${.PVC.namespace}/${.PVC.name}-${.PV.name}",
			"ensureUniqueDirectory": "false"}), want: "50000:50000 /web/data-pvc-1 700 " + tagged},
		"a pattern below a base path": {parameters: with(map[string]string{"subPathPattern": "/${.PVC.name}",
			"ensureUniqueDirectory": "false", "basePath": "a/b"}), want: "50000:50000 /a/b/data 700 " + tagged},
		"tags": {tags: map[string]string{"team": "a", tagDriver: "no"},
			want: "50000:50000 /pvc-1 700 " + tagged + " team=a"},
		"without tags": {parameters: map[string]string{"enableTagging": "false"}, want: "50000:50000 /pvc-1 700 "},
		"a file system of a ConfigMap": {parameters: map[string]string{"fileSystemId": "-",
			"fileSystemIdConfigRef": "web/ids/shared"}, want: "50000:50000 /pvc-1 700 " + tagged},
		"a file system of a Secret": {parameters: map[string]string{"fileSystemId": "-",
			"fileSystemIdSecretRef": "web/ids/shared"}, want: "50000:50000 /pvc-1 700 " + tagged},

		"no mode": {parameters: map[string]string{"provisioningMode": "-"},
			says: "Missing provisioningMode parameter"},
		"another mode": {parameters: map[string]string{"provisioningMode": "efs-fs"},
			says: "mode efs-fs is not supported"},
		"S3 Files":       {parameters: map[string]string{"provisioningMode": "s3files-ap"}, says: "is not supported"},
		"no file system": {parameters: map[string]string{"fileSystemId": "-"}, says: "must be specified"},
		"a blank one":    {parameters: map[string]string{"fileSystemId": " "}, says: "must be specified"},
		"two of them": {parameters: map[string]string{"fileSystemIdConfigRef": "web/ids/shared"},
			says: "only one of fileSystemId"},
		"no reference": {parameters: map[string]string{"fileSystemId": "-", "fileSystemIdConfigRef": "web/ids"},
			says: "expected namespace/name/key"},
		"an empty key": {parameters: map[string]string{"fileSystemId": "-", "fileSystemIdConfigRef": "web/ids/none"},
			says: "not found or empty"},
		"a ConfigMap that may not be read": {parameters: map[string]string{"fileSystemId": "-",
			"fileSystemIdConfigRef": "kube-system/ids/x"}, says: "forbidden"},
		"another file system": {parameters: map[string]string{"fileSystemId": "fs-0000000000000000f"},
			says: "File System does not exist"},
		"no user":           {parameters: map[string]string{"uid": "root"}, says: "Failed to parse invalid uid"},
		"a user below 0":    {parameters: map[string]string{"uid": "-1"}, says: "uid must be greater or equal than 0"},
		"no group":          {parameters: map[string]string{"gid": ""}, says: "Failed to parse invalid gid"},
		"a group below 0":   {parameters: map[string]string{"gid": "-5"}, says: "gid must be greater or equal than 0"},
		"no end of a range": {parameters: map[string]string{"gidRangeStart": "5"}, says: "Missing gidRangeEnd parameter"},
		"no start of it":    {parameters: map[string]string{"gidRangeEnd": "5"}, says: "Missing gidRangeStart parameter"},
		"a range from 0": {parameters: map[string]string{"gidRangeStart": "0", "gidRangeEnd": "5"},
			says: "greater than 0"},
		"a range backwards": {parameters: map[string]string{"gidRangeStart": "6", "gidRangeEnd": "5"},
			says: "must be greater than"},
		"a range of words": {parameters: map[string]string{"gidRangeStart": "a", "gidRangeEnd": "5"},
			says: "Failed to parse"},
		"an end of words": {parameters: map[string]string{"gidRangeStart": "1", "gidRangeEnd": "b"},
			says: "Failed to parse"},
		"no such variable":   {parameters: map[string]string{"subPathPattern": "/${.PVC.uid}"}, says: "invalid elements"},
		"a brace":            {parameters: map[string]string{"subPathPattern": "/a}"}, says: "invalid elements"},
		"a long path":        {parameters: map[string]string{"basePath": "/" + long}, says: "limit of 100 characters"},
		"a deep path":        {parameters: map[string]string{"basePath": "/a/b/c/d/e"}, says: "limit of 4 subdirectories"},
		"a word for reuse":   {parameters: map[string]string{"reuseAccessPoint": "maybe"}, says: "reuseAccessPoint"},
		"a word for tagging": {parameters: map[string]string{"enableTagging": "some"}, says: "enableTagging"},
		"a word for a zone":  {parameters: map[string]string{"enforceZoneAffinity": "a"}, says: "enforceZoneAffinity"},
		"tags, and none": {parameters: map[string]string{"enableTagging": "false"}, tags: map[string]string{"a": "b"},
			says: "remove the --tags flag"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fakeEFS{}
			c := newController(t, f)
			c.options.tags = x.tags
			out, err := c.CreateVolume(t.Context(), request("pvc-1", class(x.parameters)))
			if x.says != "" {
				if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), x.says) || len(f.points) > 0 {
					t.Errorf("%v, with %d access points; want InvalidArgument that says %q", err, len(f.points), x.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := describe(f.points[0]); got != x.want {
				t.Errorf("the access point is %q, want %q", got, x.want)
			}
			v := out.GetVolume()
			if want := "efs:" + fileSystem + "::" + *f.points[0].AccessPointId; v.GetVolumeId() != want ||
				v.GetCapacityBytes() != 5<<30 || len(v.GetVolumeContext()) > 0 || v.GetAccessibleTopology() != nil {
				t.Errorf("the volume is %v, want %s", v, want)
			}
			if token := *f.points[0].ClientToken; token != "pvc-1" {
				t.Errorf("the client token is %q", token)
			}
		})
	}
}

func TestVolumesWithAPatternHaveDirectoriesOfTheirOwn(t *testing.T) {
	t.Parallel()
	for _, unique := range []string{"-", "true", "what"} {
		f := &fakeEFS{}
		c := newController(t, f)
		for _, name := range []string{"a", "b"} {
			if _, err := c.CreateVolume(t.Context(), request(name, class(map[string]string{"subPathPattern": "/same",
				"ensureUniqueDirectory": unique}))); err != nil {
				t.Fatal(err)
			}
		}
		a, b := *f.points[0].RootDirectory.Path, *f.points[1].RootDirectory.Path
		if a == b || !strings.HasPrefix(a, "/same-") || !strings.HasPrefix(b, "/same-") {
			t.Errorf("with %s the directories are %s and %s", unique, a, b)
		}
	}
}

func TestCapabilities(t *testing.T) {
	t.Parallel()
	raw := &csi.VolumeCapability{AccessMode: mode(once).AccessMode,
		AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}}
	ext4 := mode(once)
	ext4.GetMount().FsType = "ext4"
	for name, x := range map[string]struct {
		all       []*csi.VolumeCapability
		says      string
		confirmed bool
	}{
		"none": {says: "Volume capabilities not provided"},
		"once": {all: []*csi.VolumeCapability{mode(once)}, confirmed: true},
		"many": {all: []*csi.VolumeCapability{mode(many), mode(once)}, confirmed: true},
		"many that read": {all: []*csi.VolumeCapability{mode(many), mode(readOnly)},
			says: "invalid access mode: MULTI_NODE_READER_ONLY"},
		"raw":                  {all: []*csi.VolumeCapability{raw}, says: "only filesystem volumes are supported"},
		"another account":      {all: []*csi.VolumeCapability{mode(many, "crossaccount")}, says: "cannot be set manually"},
		"another, in a list":   {all: []*csi.VolumeCapability{mode(many, "noatime,crossaccount")}, says: "cannot be set manually"},
		"a file system's name": {all: []*csi.VolumeCapability{ext4}, says: "invalid fstype: ext4", confirmed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newController(t, &fakeEFS{})
			r := request("pvc-1", class(nil))
			r.VolumeCapabilities = x.all
			_, err := c.CreateVolume(t.Context(), r)
			if (err != nil) != (x.says != "") || err != nil && (status.Code(err) != codes.InvalidArgument ||
				!strings.Contains(err.Error(), x.says)) {
				t.Errorf("%v, want %q", err, x.says)
			}
			if len(x.all) == 0 {
				return
			}
			out, err := c.ValidateVolumeCapabilities(t.Context(), &csi.ValidateVolumeCapabilitiesRequest{
				VolumeId: fileSystem, VolumeCapabilities: x.all})
			if err != nil || (out.GetConfirmed() != nil) != x.confirmed {
				t.Errorf("confirmed: %v, %v", out.GetConfirmed(), err)
			}
		})
	}
}

// A request that is made again finds the access point of the first, if it fits.
func TestVolumesOfOneName(t *testing.T) {
	t.Parallel()
	reused := map[string]string{"reuseAccessPoint": "true", pvcName: "data"}
	for name, x := range map[string]struct {
		first, again map[string]string
		other        string // name of the second volume
		code         codes.Code
	}{
		"the same": {},
		"with a user": {first: map[string]string{"uid": "7", "gid": "7"},
			again: map[string]string{"uid": "7", "gid": "7"}},
		"another group": {first: map[string]string{"gid": "7"}, again: map[string]string{"gid": "8"},
			code: codes.AlreadyExists},
		"another user": {first: map[string]string{"uid": "7"}, again: map[string]string{"uid": "8"},
			code: codes.AlreadyExists},
		"another range": {again: map[string]string{"gidRangeStart": "1", "gidRangeEnd": "9"}, code: codes.AlreadyExists},
		"another path":  {again: map[string]string{"basePath": "/other"}, code: codes.AlreadyExists},
		"of another PV": {first: reused, again: reused, other: "pvc-2"},
		"reused by a user": {first: reused, again: map[string]string{"reuseAccessPoint": "true", pvcName: "data",
			"uid": "1"}, other: "pvc-2", code: codes.AlreadyExists},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fakeEFS{page: 1}
			c := newController(t, f)
			if _, err := c.CreateVolume(t.Context(), request("pvc-0", class(map[string]string{"uid": "1",
				"gid": "1"}))); err != nil {
				t.Fatal(err)
			}
			first, err := c.CreateVolume(t.Context(), request("pvc-1", class(x.first)))
			if err != nil {
				t.Fatal(err)
			}
			other := "pvc-1"
			if x.other != "" {
				other = x.other
			}
			again, err := c.CreateVolume(t.Context(), request(other, class(x.again)))
			if status.Code(err) != x.code {
				t.Fatalf("%v, want %v", err, x.code)
			}
			if err == nil && again.GetVolume().GetVolumeId() != first.GetVolume().GetVolumeId() || len(f.points) != 2 {
				t.Errorf("first %v, then %v, with %d access points", first, again, len(f.points))
			}
		})
	}
}

func TestGroupsDiffer(t *testing.T) {
	t.Parallel()
	f := &fakeEFS{page: 3}
	c := newController(t, f)
	parameters := class(map[string]string{"gidRangeStart": "100", "gidRangeEnd": "109"})
	var wait sync.WaitGroup
	for i := range 10 {
		wait.Go(func() {
			if _, err := c.CreateVolume(t.Context(), request(fmt.Sprint("pvc-", i), parameters)); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	groups := make(map[int64]bool)
	for _, p := range f.points {
		groups[*p.PosixUser.Gid] = true
	}
	if len(groups) != 10 {
		t.Errorf("10 volumes have %d groups", len(groups))
	}
	if _, err := c.CreateVolume(t.Context(), request("pvc-10", parameters)); status.Code(err) != codes.Internal ||
		!strings.Contains(err.Error(), "free GID") {
		t.Errorf("%v, want that there is no free group", err)
	}
	f.points = slices.Delete(f.points, 4, 5)
	if _, err := c.CreateVolume(t.Context(), request("pvc-11", parameters)); err != nil {
		t.Errorf("a group is free again: %v", err)
	}
}

func TestWhatTheRoleMayNotDo(t *testing.T) {
	t.Parallel()
	for action, x := range map[string]struct {
		parameters map[string]string
		code       codes.Code
	}{
		"CreateAccessPoint":    {code: codes.Unauthenticated},
		"DescribeAccessPoints": {code: codes.Unauthenticated},
		"DescribeFileSystems": {parameters: map[string]string{"enforceZoneAffinity": "true"},
			code: codes.Unauthenticated},
	} {
		c := newController(t, &fakeEFS{denied: []string{action}})
		_, err := c.CreateVolume(t.Context(), request("pvc-1", class(x.parameters)))
		if status.Code(err) != x.code || !strings.Contains(err.Error(), "right AWS permissions") {
			t.Errorf("%s: %v, want %v", action, err, x.code)
		}
	}
	// With a user of its own, the first call is the one that makes it: EFS does not say that there is no file system.
	c := newController(t, &fakeEFS{})
	_, err := c.CreateVolume(t.Context(), request("pvc-1", class(map[string]string{"uid": "1", "gid": "1",
		"fileSystemId": "fs-0000000000000000f"})))
	if status.Code(err) != codes.Internal {
		t.Errorf("%v, want Internal", err)
	}
}

func TestZones(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ zone, affinity, want string }{
		{"", "true", ""}, {"eu-west-1b", "true", "eu-west-1b"}, {"eu-west-1b", "false", ""},
	} {
		c := newController(t, &fakeEFS{zone: x.zone})
		out, err := c.CreateVolume(t.Context(), request("pvc-1", class(map[string]string{
			"enforceZoneAffinity": x.affinity})))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, topology := range out.GetVolume().GetAccessibleTopology() {
			got += topology.GetSegments()[zoneKey]
		}
		if got != x.want {
			t.Errorf("%+v: the volume is in %q", x, got)
		}
	}
}

func TestFileSystemsOfOtherAccounts(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		secrets, parameters, want map[string]string
		code                      codes.Code
	}{
		"each node by its zone": {secrets: map[string]string{secretRole: "arn:aws:iam::222222222222:role/efs"},
			want: map[string]string{"mounttargetipmap": `{"eu-west-1a":"10.0.1.5","eu-west-1b":"10.0.2.5"}`}},
		"all by one zone": {secrets: map[string]string{secretRole: "arn:aws:iam::222222222222:role/efs"},
			parameters: map[string]string{"az": "eu-west-1a"}, want: map[string]string{"mounttargetip": "10.0.1.5"}},
		"by a zone without one": {secrets: map[string]string{secretRole: "arn:aws:iam::222222222222:role/efs"},
			parameters: map[string]string{"az": "eu-west-1c"}, want: map[string]string{"mounttargetip": "10.0.2.5"}},
		"by name": {secrets: map[string]string{secretRole: "arn:aws:iam::222222222222:role/efs",
			secretCrossAccount: "true"}, want: map[string]string{"crossaccount": "true"}},
		"a zone of one's own account": {parameters: map[string]string{"az": "eu-west-1a"}},
		"a word": {secrets: map[string]string{secretCrossAccount: "perhaps"},
			code: codes.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fakeEFS{}
			c := newController(t, nil)
			c.efs, c.assume = f, func(role, _ string) api {
				if role != x.secrets[secretRole] {
					t.Errorf("the role is %q", role)
				}
				return f
			}
			r := request("pvc-1", class(x.parameters))
			r.Secrets = x.secrets
			out, err := c.CreateVolume(t.Context(), r)
			if status.Code(err) != x.code {
				t.Fatalf("%v, want %v", err, x.code)
			}
			if got := out.GetVolume().GetVolumeContext(); !maps.Equal(got, x.want) {
				t.Errorf("nodes are told %v, want %v", got, x.want)
			}
		})
	}
}
