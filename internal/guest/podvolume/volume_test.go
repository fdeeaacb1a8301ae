package podvolume

import "testing"

func TestParse(t *testing.T) {
	t.Parallel()
	const uid = "0a1b2c3d-1111-2222-3333-444455556666"
	const volumes = PodsDir + uid + "/volumes/"
	for file, want := range map[string]struct {
		volume   Volume
		within   string
		readOnly bool
	}{
		volumes + "kubernetes.io~empty-dir/e":             {Volume{"empty-dir", "e"}, "", false},
		volumes + "kubernetes.io~empty-dir/e/a/b":         {Volume{"empty-dir", "e"}, "a/b", false},
		volumes + "kubernetes.io~nfs/n":                   {Volume{"nfs", "n"}, "", false},
		volumes + "kubernetes.io~csi/pv/mount":            {Volume{"csi", "pv"}, "", false},
		volumes + "kubernetes.io~csi/pv/mount/a":          {Volume{"csi", "pv"}, "a", false},
		volumes + "kubernetes.io~configmap/c/..data":      {Volume{"configmap", "c"}, "..data", true},
		volumes + "kubernetes.io~secret/s/key":            {Volume{"secret", "s"}, "key", true},
		volumes + "kubernetes.io~projected/kube-api-x":    {Volume{"projected", "kube-api-x"}, "", true},
		volumes + "kubernetes.io~downward-api/labels":     {Volume{"downward-api", "labels"}, "", true},
		volumes + "kubernetes.io~csi/pv":                  {},
		volumes + "kubernetes.io~csi/pv/vol_data.json":    {},
		volumes + "kubernetes.io~csi/pv/mounted":          {},
		volumes + "kubernetes.io~csi":                     {},
		volumes + "kubernetes.io~configmap":               {},
		volumes + "kubernetes.io~configmap/":              {},
		volumes + "kubernetes.io~empty-dir/..":            {},
		volumes + "kubernetes.io~empty-dir/../x/y":        {},
		volumes + "kubernetes.io~empty-dir//e":            {},
		volumes + "kubernetes.io~local-volume/l":          {},
		volumes + "other~empty-dir/e":                     {},
		volumes:                                           {},
		PodsDir + uid + "/etc-hosts":                      {},
		PodsDir + "/volumes/kubernetes.io~empty-dir/e":    {},
		PodsDir + uid + "0/volumes/kubernetes.io~nfs/n":   {},
		"/var/lib/volumes/kubernetes.io~empty-dir/e":      {},
		"volumes/kubernetes.io~empty-dir/e":               {},
		PodsDir + uid + "/volume-subpaths/v/web/0":        {},
		PodsDir + uid + "/plugins/kubernetes.io~csi/pv/x": {},
	} {
		v, within, ok := Parse(uid, file)
		if v != want.volume || within != want.within || ok != (want.volume != Volume{}) || v.ReadOnly() != want.readOnly {
			t.Errorf("%s is %+v, %q, %v", file, v, within, ok)
		}
	}
	if _, _, ok := Parse("", PodsDir+"/volumes/kubernetes.io~nfs/n"); ok {
		t.Error("a pod without a UID has volumes")
	}
	if (Volume{Plugin: "nfs"}).InMemory() || (Volume{Plugin: "csi"}).InMemory() || !(Volume{Plugin: "secret"}).InMemory() {
		t.Error("volumes in memory are others")
	}
}
