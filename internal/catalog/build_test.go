package catalog

import (
	"errors"
	"io/fs"
	"reflect"
	"strings"
	"testing"
)

func TestWhatIsWrongWithComponentsAndImages(t *testing.T) {
	t.Parallel()
	files := func(name string) ([]byte, error) {
		if name == "main.go.txt" {
			return []byte("package main"), nil
		}
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	good := func() (componentEntry, imageEntry) {
		return componentEntry{
				Module: "example.com/m", Programs: map[string]string{"m": "./cmd/m"},
				Files: map[string]string{"cmd/m/main.go": "main.go.txt"},
				Data: map[string]dataEntry{"crds.yaml": {Path: "crds"}, "others.yaml": {Module: "example.com/o",
					Path: "o.yaml"}},
				Versions: map[string]pinEntry{"v1.0.0": {Sum: "h1:a=",
					Others: map[string]string{"example.com/o": "v2.0.0 h1:b="}}},
			}, imageEntry{
				Repository: "docker.io/team/m", Component: "m", Files: map[string]string{"/m": "m",
					"/pause": "node:pause"},
			}
	}
	for name, test := range map[string]struct {
		change func(*componentEntry, *imageEntry)
		want   string
	}{
		"nothing":    {func(*componentEntry, *imageEntry) {}, ""},
		"no module":  {func(c *componentEntry, _ *imageEntry) { c.Module = "" }, "module is missing"},
		"no version": {func(c *componentEntry, _ *imageEntry) { c.Versions = nil }, "versions is empty"},
		"a sum of go.mod": {func(c *componentEntry,
			_ *imageEntry) {
			c.Versions["v1.0.0"] = pinEntry{Sum: "sha256:x"}
		}, `versions.v1.0.0.sum: "sha256:x" is not a sum`},
		"no pin of another": {func(c *componentEntry,
			_ *imageEntry) {
			c.Versions["v1.0.0"] = pinEntry{Sum: "h1:a="}
		}, "versions.v1.0.0.others lacks example.com/o, which data.others.yaml comes from"},
		"half a pin": {func(c *componentEntry,
			_ *imageEntry) {
			c.Versions["v1.0.0"].Others["example.com/o"] = "v2.0.0"
		}, `versions.v1.0.0.others.example.com/o: "v2.0.0" is not "VERSION h1:..."`},
		"a file that is not there": {func(c *componentEntry, _ *imageEntry) { c.Files["x.go"] = "x" },
			"files.x.go: open x: file does not exist"},
		"a file outside": {func(c *componentEntry, _ *imageEntry) { c.Files["../x.go"] = "main.go.txt" },
			"files.../x.go: not a path in the module"},
		"data outside": {func(c *componentEntry,
			_ *imageEntry) {
			c.Data["x"] = dataEntry{Path: "/etc/passwd"}
		}, `data.x.path: "/etc/passwd" is not a path in the module`},
		"a package outside": {func(c *componentEntry, _ *imageEntry) { c.Programs["m"] = "example.com/m" },
			`programs.m: "example.com/m" is not a package of the module`},
		"a program in a directory": {func(c *componentEntry, _ *imageEntry) { c.Programs["bin/m"] = "." },
			`programs: "bin/m" is not the name of a file`},
		"no registry": {func(_ *componentEntry, i *imageEntry) { i.Repository = "team/m" },
			`repository: "team/m" has no registry`},
		"no repository": {func(_ *componentEntry, i *imageEntry) { i.Repository = "" },
			"repository is missing"},
		"an unknown base": {func(_ *componentEntry, i *imageEntry) { i.Base = []string{"alpine"} },
			`base: "alpine" is not known`},
		"an unknown component": {func(_ *componentEntry, i *imageEntry) { i.Component = "n" },
			`component: there is no "n" below components`},
		"no files": {func(_ *componentEntry, i *imageEntry) { i.Files = nil }, "files is empty"},
		"files of nothing": {func(_ *componentEntry, i *imageEntry) { i.Component = "" },
			"files are of a component, and none is named"},
		"an unknown program": {func(_ *componentEntry, i *imageEntry) { i.Files["/n"] = "n" },
			`files./n: "n" is no program of m`},
		"a relative path": {func(_ *componentEntry, i *imageEntry) { i.Files["n"] = "m" },
			"files.n: it is a path in the image and begins with a slash"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, i := good()
			test.change(&c, &i)
			err := errors.Join(c.validate(files), i.validate(map[string]componentEntry{"m": c}, true))
			if test.want == "" && err != nil || test.want != "" &&
				(err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

func TestWhatAnImageIsBuiltFrom(t *testing.T) {
	t.Parallel()
	addon, ok := open(t).Addon("snapshot-controller")
	if !ok {
		t.Fatal("there is no snapshot-controller")
	}
	client := "github.com/kubernetes-csi/external-snapshotter/client/v8"
	for version, built := range map[string]bool{"v8.7.0-eksbuild.1": true, "v8.5.0-eksbuild.1": false} {
		v, ok := addon.Version(version)
		if !ok {
			t.Fatalf("there is no %s", version)
		}
		images := v.Images("us-gov-west-1", "1.35")
		if len(images) != 1 {
			t.Fatalf("%s: %+v", version, images)
		}
		i := images[0]
		if want := "013241004608.dkr.ecr.us-gov-west-1.amazonaws.com/eks/snapshot-controller:" +
			version; i.Reference != want {
			t.Errorf("it is %s, want %s", i.Reference, want)
		}
		if want := "registry.k8s.io/sig-storage/snapshot-controller:" + upstream(version); i.Public != want {
			t.Errorf("upstream's is %s, want %s", i.Public, want)
		}
		if (i.Build != nil) != built {
			t.Fatalf("%s is built from %+v", version, i.Build)
		}
		if !built {
			continue
		}
		if i.Build.Stamps["main.version"] != "v8.7.0" || i.Build.Replace[client] != client+"@v8.7.0" ||
			len(i.Build.Sums) != 2 {
			t.Errorf("%s is built from %+v", version, i.Build)
		}
		if want := (Recipe{Files: map[string]string{"/snapshot-controller": "snapshot-controller"},
			Entrypoint: []string{"/snapshot-controller"}}); !reflect.DeepEqual(i.Recipe, want) {
			t.Errorf("%s is made as %+v", version, i.Recipe)
		}
	}
}
