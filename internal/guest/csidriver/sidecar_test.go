//go:build linux

package csidriver

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// driverName is that of the driver in these tests.
const driverName = "ebs.csi.aws.com"

func TestRegistrarTellsKubeletOfTheDriver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	socket := filepath.Join(dir, "csi.sock")
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- Serve(ctx, slog.New(slog.DiscardHandler), "unix:"+socket, func(s *grpc.Server) {
			csi.RegisterIdentityServer(s, &Identity{Driver: driverName})
		})
	}()
	name, err := askName(ctx, socket)
	if err != nil || name != driverName {
		t.Errorf("the driver is %q, %v", name, err)
	}
	r := &registrar{driver: name, socket: "/var/lib/kubelet/plugins/x/csi.sock", failed: make(chan string, 1)}
	info, err := r.GetInfo(ctx, &registration.InfoRequest{})
	if err != nil || info.Type != registration.CSIPlugin || info.Name != driverName || info.Endpoint != r.socket {
		t.Errorf("kubelet is told %v, %v", info, err)
	}
	if _, err := r.NotifyRegistrationStatus(ctx, &registration.RegistrationStatus{PluginRegistered: true}); err != nil ||
		len(r.failed) > 0 {
		t.Errorf("registered, and failed: %v", err)
	}
	if _, err := r.NotifyRegistrationStatus(ctx, &registration.RegistrationStatus{Error: "taken"}); err != nil ||
		<-r.failed != "taken" {
		t.Errorf("refused, and no failure: %v", err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
