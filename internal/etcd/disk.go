package etcd

import (
	"context"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coracle-eks/coracle/internal/diskspace"
)

// disk refuses writes before the disk is so full that etcd would end. Reads and deletions go on.
type disk struct {
	dir  string
	free func(dir string) (int64, error)
	// cluster returns the cluster that sends a request, "" for the daemon.
	cluster func(context.Context) (string, error)
	log     func() *zap.Logger

	mu     sync.Mutex
	warned time.Time
}

func newDisk(dir string, s *shares) *disk {
	return &disk{
		dir: dir, free: diskspace.Free, cluster: s.clusterOf,
		log: func() *zap.Logger { return s.log() },
	}
}

func (d *disk) unary(
	ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (any, error) {
	if _, lease := request.(*pb.LeaseGrantRequest); !lease && weighRequest(request) == 0 {
		return handler(ctx, request)
	}
	cluster, err := d.cluster(ctx)
	if err != nil {
		return nil, err
	}
	least := int64(diskspace.Daemon)
	if cluster != "" {
		least = diskspace.Cluster
	}
	if free, err := d.free(d.dir); err == nil && free < least {
		d.warn(free)
		return nil, status.Errorf(codes.ResourceExhausted,
			"the disk of %s is full: %d MiB are free, and changes are made again from %d MiB on: free some space",
			d.dir, free>>20, least>>20)
	}
	return handler(ctx, request)
}

// warn logs that the disk is full, at most once a minute.
func (d *disk) warn(free int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.warned) < time.Minute {
		return
	}
	d.warned = time.Now()
	d.log().Error("the disk is full: changes are refused until there is space",
		zap.String("dir", d.dir), zap.Int64("free-bytes", free))
}
