package image

import (
	"errors"
	"fmt"
	"path"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// A form says how an image is made of programs, of whichever version.
type form struct {
	iptables bool
	dir      string   // in which its files are
	programs []string // names of programs
	data     []string // and of files
	config   v1.Config
}

// shaped are the images that other versions of an add-on have in the same form, by component.
var shaped = map[string]form{
	VPCCNIInit: {
		dir: "/init", programs: []string{"aws-vpc-cni-init", "loopback", "portmap", "bandwidth", "host-local", "ptp",
			"bridge"},
		config: v1.Config{WorkingDir: "/init", Cmd: []string{"/init/aws-vpc-cni-init"}},
	},
	VPCCNI: {
		iptables: true,
		dir:      "/app", programs: []string{"aws-vpc-cni", "aws-k8s-agent", "aws-cni", "egress-cni",
			"grpc-health-probe"},
		data:   []string{"10-aws.conflist", "eni-max-pods.txt"},
		config: v1.Config{WorkingDir: "/app", Entrypoint: []string{"/app/aws-vpc-cni"}},
	},
	NetworkPolicyAgent: {
		dir: "/", programs: []string{"coracle-csi"},
		config: v1.Config{Entrypoint: []string{"/coracle-csi", "aws-network-policy-agent"}},
	},
	CoreDNS: {
		dir: "/", programs: []string{"coredns"},
		config: v1.Config{Entrypoint: []string{"/coredns"}, User: "nonroot:nonroot",
			ExposedPorts: map[string]struct{}{"53": {}, "53/udp": {}}},
	},
}

// buildRecipe returns the recipe of the image with the given name. find returns the paths of its programs.
func buildRecipe(name, reference string, base, iptables []entry, find func(name string) (string, error)) (
	recipe, error) {
	f, ok := shaped[name]
	if !ok {
		return recipe{}, fmt.Errorf("no image is made like %q", name)
	}
	var missing error
	var files []entry
	add := func(mode int64, names []string) {
		for _, name := range names {
			source, err := find(name)
			missing = errors.Join(missing, err)
			files = append(files, entry{Path: path.Join(f.dir, name), Source: source, Mode: mode})
		}
	}
	add(0o755, f.programs)
	add(0o644, f.data)
	layers := [][]entry{base}
	if f.iptables {
		layers = append(layers, iptables)
	}
	config := f.config
	config.Env = []string{pathEnv}
	return recipe{reference, append(layers, files), config}, missing
}
