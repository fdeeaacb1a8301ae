//go:build linux

package ebscsi

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

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
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

// serveGRPC serves what register registers until the context ends, and lets calls end then.
func serveGRPC(ctx context.Context, log *slog.Logger, endpoint string, register func(*grpc.Server)) error {
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

// identityServer says who the driver is, and whether it is well.
type identityServer struct {
	csi.UnimplementedIdentityServer
	controller *controller // nil on nodes

	mu     sync.Mutex
	proved bool // EC2 has answered once
}

// GetPluginInfo answers name and version.
func (*identityServer) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: DriverName, VendorVersion: "coracle"}, nil
}

// GetPluginCapabilities answers that there is a controller, and that volumes are in zones.
func (*identityServer) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (
	*csi.GetPluginCapabilitiesResponse, error) {
	var out csi.GetPluginCapabilitiesResponse
	for _, c := range []csi.PluginCapability_Service_Type{csi.PluginCapability_Service_CONTROLLER_SERVICE,
		csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS} {
		out.Capabilities = append(out.Capabilities, &csi.PluginCapability{Type: &csi.PluginCapability_Service_{
			Service: &csi.PluginCapability_Service{Type: c}}})
	}
	return &out, nil
}

// Probe answers whether EC2 can be reached, and lets this controller in; once it was, it is well.
func (s *identityServer) Probe(ctx context.Context, _ *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.controller == nil || s.proved {
		return &csi.ProbeResponse{}, nil
	}
	_, err := s.controller.ec2.DescribeAvailabilityZones(ctx, &ec2.DescribeAvailabilityZonesInput{
		DryRun: aws.Bool(true)}, func(o *ec2.Options) { o.Retryer = aws.NopRetryer{} })
	if !hasCode(err, "DryRunOperation") {
		return nil, status.Errorf(codes.FailedPrecondition,
			"Failed health check (verify network connection and IAM credentials): %v", err)
	}
	s.proved = true
	return &csi.ProbeResponse{}, nil
}

// inFlight has the volumes and snapshots that a call works on. Its zero value is ready.
type inFlight struct {
	mu   sync.Mutex
	keys map[string]struct{}
}

// begin begins to work on what the key names; there is an error while another call does.
func (f *inFlight) begin(key string) (end func(), err error) {
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
