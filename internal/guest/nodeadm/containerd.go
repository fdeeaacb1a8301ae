package nodeadm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"

	"github.com/coracle-eks/coracle/internal/guest/node"
	"github.com/coracle-eks/coracle/internal/guest/rootfs"
)

const (
	containerdConfig = "/etc/containerd/config.toml"
	baseRuntimeSpec  = "/etc/containerd/base-runtime-spec.json"
)

// containerd configures containerd.
func (r *run) containerd(c *NodeConfig) error {
	if err := r.baseSpec(c.Spec.Containerd.BaseRuntimeSpec); err != nil {
		return err
	}
	if c.Spec.FeatureGates[fastImagePull] {
		r.log("warn", "featureGates.FastImagePull is ignored: this machine has no SOCI snapshotter")
	}
	options := rootfs.ContainerdOptions{SandboxImage: c.Status.Defaults.SandboxImage, BaseRuntimeSpec: baseRuntimeSpec}
	user := c.Spec.Containerd.Config
	r.log("info", "Writing containerd config to file..", "path", containerdConfig)
	if user == "" {
		return r.writeFile(containerdConfig, rootfs.ContainerdConfig(options))
	}
	if !strings.Contains(user, "io.containerd.cri.v1.images") && !strings.Contains(user,
		"io.containerd.cri.v1.runtime") {
		options.Version = 2
	}
	merged, err := mergeTOML(rootfs.ContainerdConfig(options), user)
	if err != nil {
		return err
	}
	if err := r.writeFile(containerdConfig, merged); err != nil || options.Version != 2 {
		return err
	}
	// What the user has in the form of version 2 moves to where version 3 has it; that is containerd's own work.
	r.log("info", "Migrate containerd config to V3..", "path", containerdConfig)
	migrate := exec.Command(r.Containerd, "--config", r.rootPath(containerdConfig), "config", "migrate")
	var stderr bytes.Buffer
	migrate.Stderr = &stderr
	out, err := migrate.Output()
	if err != nil {
		return fmt.Errorf("containerd config migrate: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	return r.writeFile(containerdConfig, string(out))
}

// baseSpec writes the specification on which containers are based: the image's, with the user's over it.
func (r *run) baseSpec(user map[string]any) error {
	r.log("info", "Writing containerd base runtime spec...", "path", baseRuntimeSpec)
	spec, err := node.RuntimeSpec()
	if err != nil {
		return err
	}
	merged, err := mergeMaps(spec, user)
	if err != nil {
		return err
	}
	if err := node.LimitFiles(merged); err != nil {
		return err
	}
	data, err := json.MarshalIndent(merged, "", "    ")
	if err != nil {
		return err
	}
	return r.writeFile(baseRuntimeSpec, string(data)+"\n")
}
