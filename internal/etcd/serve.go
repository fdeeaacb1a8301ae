package etcd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"syscall"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"
)

const (
	// quota is the size at which etcd is full: shares of clusters are parts of it.
	quota = 8 << 30
	// maxRequestBytes is the request size that Kubernetes' largest objects and our largest transactions need.
	maxRequestBytes = 8 << 20
	maxTxnOps       = 10000
	// compaction drops what changed longer ago. Kubernetes' own compaction keeps as much.
	compaction = "5m"
	// snapshotEntries is the number of entries that the raft log keeps in memory between snapshots. The default of
	// 10000 costs hundreds of megabytes with Kubernetes' objects; no follower has to catch up with a single member.
	snapshotEntries = 2000
	catchUpEntries  = 100
)

// Serve runs the etcd in dir, which Prepare has made, until ctx ends.
func Serve(ctx context.Context, dir string) error {
	e, err := Prepare(dir)
	if err != nil {
		return err
	}
	config := e.embedConfig()
	shares := newShares(e.quota)
	config.GRPCAdditionalServerOptions = []grpc.ServerOption{ // after etcd's own interceptors
		grpc.ChainUnaryInterceptor(newDisk(dir, shares).unary, shares.interceptUnary),
		grpc.ChainStreamInterceptor(shares.interceptStream),
	}
	etcd, err := embed.StartEtcd(config)
	if err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf(
				"etcd's port %d (recorded in %s) is in use by another program; see: ss -ltnp 'sport = :%d'",
				e.port, filepath.Join(dir, "settings.json"), e.port)
		}
		return fmt.Errorf("start etcd in %s: %w", dir, err)
	}
	defer etcd.Close()
	shares.startServing(&embeddedServer{etcd: etcd.Server})
	defer shares.stopCounting()
	select {
	case err := <-etcd.Err():
		return fmt.Errorf("etcd in %s: %w", dir, err)
	case <-etcd.Server.StopNotify():
		return fmt.Errorf("etcd in %s stopped by itself", dir)
	case <-ctx.Done():
		return nil
	}
}

func (e *Embedded) embedConfig() *embed.Config {
	clients := url.URL{Scheme: "https", Host: net.JoinHostPort("127.0.0.1", fmt.Sprint(e.port))}
	// A single member has no peers and needs no listener for them, only a name.
	peers := url.URL{Scheme: "https", Host: "127.0.0.1:2380"}
	file := func(name string) string { return filepath.Join(e.dir, "pki", name) }

	c := embed.NewConfig()
	c.Name = "coracle"
	c.Dir = filepath.Join(e.dir, "data")
	c.LogLevel = "warn"
	c.LogOutputs = []string{"stderr"}
	c.ListenPeerUrls = nil
	c.AdvertisePeerUrls = []url.URL{peers}
	c.ListenClientUrls = []url.URL{clients}
	c.AdvertiseClientUrls = []url.URL{clients}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.InitialClusterToken = "coracle"
	c.ClientTLSInfo = transport.TLSInfo{
		CertFile: file("server.crt"), KeyFile: file("server.key"), TrustedCAFile: file("ca.crt"), ClientCertAuth: true,
	}
	c.EnableGRPCGateway = false // authentication by certificate does not work through it
	c.MaxTxnOps = maxTxnOps
	c.MaxRequestBytes = maxRequestBytes
	c.QuotaBackendBytes = e.quota
	c.AutoCompactionMode = embed.CompactorModePeriodic
	c.AutoCompactionRetention = compaction
	c.SnapshotCount = snapshotEntries
	c.SnapshotCatchUpEntries = catchUpEntries
	c.BootstrapDefragThresholdMegabytes = 128
	// Nobody competes for leadership, so there is no reason to wait for others before taking it.
	c.TickMs, c.ElectionMs = 20, 100
	c.WarningApplyDuration = time.Second
	c.WarningUnaryRequestDuration = 2 * time.Second
	return c
}
