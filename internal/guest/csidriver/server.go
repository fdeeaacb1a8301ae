//go:build linux

package csidriver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// listenUnix listens on a socket, "unix:///csi/csi.sock", "unix:/csi/csi.sock" or "/csi/csi.sock", where an earlier
// process may have left one.
func listenUnix(endpoint string) (net.Listener, error) {
	scheme, path, ok := strings.Cut(endpoint, ":")
	if !ok {
		scheme, path = "unix", endpoint
	}
	if scheme != "unix" {
		return nil, fmt.Errorf("endpoint %q: only unix sockets are served", endpoint)
	}
	path = filepath.Clean("/" + strings.TrimLeft(path, "/"))
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return net.Listen("unix", path)
}

// Serve serves what register registers at a socket until the context ends, and lets calls end then.
func Serve(ctx context.Context, log *slog.Logger, endpoint string, register func(*grpc.Server)) error {
	l, err := listenUnix(endpoint)
	if err != nil {
		return err
	}
	s := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, request any, info *grpc.UnaryServerInfo,
		handle grpc.UnaryHandler) (any, error) {
		answer, err := handle(ctx, request)
		if err != nil {
			log.Error("a call failed", "method", info.FullMethod, "error", err)
		} else {
			log.Debug("served", "method", info.FullMethod)
		}
		return answer, err
	}))
	register(s)
	stopped := context.AfterFunc(ctx, s.GracefulStop)
	defer stopped()
	log.Info("serving", "endpoint", endpoint)
	return s.Serve(l)
}

// Invalid returns the error of a request that the driver does not take.
func Invalid(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}

// Identity is the identity service: it answers which driver this is, and whether it is well.
type Identity struct {
	csi.UnimplementedIdentityServer
	Driver string // its name
	// Check, if any, returns why the driver is not well. Once it was, it is not asked again.
	Check func(context.Context) error

	mu     sync.Mutex
	proved bool
}

// GetPluginInfo answers name and version.
func (s *Identity) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: s.Driver, VendorVersion: "coracle"}, nil
}

// GetPluginCapabilities answers that there is a controller, and that volumes are in zones.
func (*Identity) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (
	*csi.GetPluginCapabilitiesResponse, error) {
	var out csi.GetPluginCapabilitiesResponse
	for _, c := range []csi.PluginCapability_Service_Type{csi.PluginCapability_Service_CONTROLLER_SERVICE,
		csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS} {
		out.Capabilities = append(out.Capabilities, &csi.PluginCapability{Type: &csi.PluginCapability_Service_{
			Service: &csi.PluginCapability_Service{Type: c}}})
	}
	return &out, nil
}

// Probe answers whether the driver is well.
func (s *Identity) Probe(ctx context.Context, _ *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Check != nil && !s.proved {
		if err := s.Check(ctx); err != nil {
			return nil, err
		}
		s.proved = true
	}
	return &csi.ProbeResponse{}, nil
}

// NodeCapabilities returns the answer of a node's service that it can do these.
func NodeCapabilities(can ...csi.NodeServiceCapability_RPC_Type) *csi.NodeGetCapabilitiesResponse {
	var out csi.NodeGetCapabilitiesResponse
	for _, c := range can {
		out.Capabilities = append(out.Capabilities, &csi.NodeServiceCapability{Type: &csi.NodeServiceCapability_Rpc{
			Rpc: &csi.NodeServiceCapability_RPC{Type: c}}})
	}
	return &out
}

// ControllerCapabilities returns the answer of a controller that it can do these.
func ControllerCapabilities(can ...csi.ControllerServiceCapability_RPC_Type) *csi.ControllerGetCapabilitiesResponse {
	var out csi.ControllerGetCapabilitiesResponse
	for _, c := range can {
		out.Capabilities = append(out.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: c}}})
	}
	return &out
}

// InFlight has the volumes and snapshots that a call works on. Its zero value is ready.
type InFlight struct {
	mu   sync.Mutex
	keys map[string]struct{}
}

// Begin begins to work on what the key names; there is an error while another call does.
func (f *InFlight) Begin(key string) (end func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, there := f.keys[key]; there {
		return nil, status.Errorf(codes.Aborted, "An operation with the given volume=%q is already in progress", key)
	}
	if f.keys == nil {
		f.keys = make(map[string]struct{})
	}
	f.keys[key] = struct{}{}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.keys, key)
	}, nil
}
