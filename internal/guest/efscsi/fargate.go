//go:build linux

package efscsi

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"

	"github.com/coracle-eks/coracle/internal/guest/csidriver"
)

// NodeMain runs the program "aws-efs-csi-node" and returns the exit status: the node's service of the driver with its
// registration, for a machine on which nothing may be asked for what its arguments tell. It calls no service of AWS.
func NodeMain(args []string) int {
	var who csidriver.Node
	flags := flag.NewFlagSet("aws-efs-csi-node", flag.ContinueOnError)
	flags.StringVar(&who.Instance, "node-id", "", "ID of the node in volume attachments")
	flags.StringVar(&who.Region, "region", "", "region of the node")
	flags.StringVar(&who.Zone, "zone", "", "availability zone of the node")
	volumes := flags.String("volumes", "", "file with the volumes that may be mounted, by the names of persistent volumes")
	kubelet := flags.String("kubelet-dir", "/var/lib/kubelet", "directory of kubelet")
	return csidriver.Run(flags, args, func(ctx context.Context, log *slog.Logger) error {
		allowed, err := readVolumes(*volumes)
		if err != nil {
			return err
		}
		return serveNode(ctx, log, who, efsMounter{csidriver.NewMounter(), who.Region}, allowed, *kubelet)
	})
}

// readVolumes reads the digests of volumes from a file with a JSON object.
func readVolumes(file string) (map[string]string, error) {
	if file == "" {
		return nil, errors.New("--volumes is required")
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	volumes := map[string]string{}
	if err := json.Unmarshal(data, &volumes); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return volumes, nil
}

// serveNode serves the node's service to kubelet until the context ends. Volumes are mounted that have one of the
// digests, by the names of their persistent volumes.
func serveNode(ctx context.Context, log *slog.Logger, who csidriver.Node, m mounter, volumes map[string]string,
	kubelet string) error {
	if who.Instance == "" || who.Region == "" || who.Zone == "" {
		return errors.New("--node-id, --region and --zone are required")
	}
	socket := filepath.Join(kubelet, "plugins", DriverName, "csi.sock")
	registry := filepath.Join(kubelet, "plugins_registry")
	for _, dir := range []string{filepath.Dir(socket), registry} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n := newNode(options{}, who, m)
	n.volumes = volumes
	served := make(chan error, 1)
	go func() {
		defer cancel()
		served <- csidriver.Serve(ctx, log, socket, func(s *grpc.Server) {
			csi.RegisterIdentityServer(s, &csidriver.Identity{Driver: DriverName})
			csi.RegisterNodeServer(s, n)
		})
	}()
	err := csidriver.Register(ctx, log, DriverName, socket, registry)
	cancel()
	return errors.Join(err, <-served)
}
