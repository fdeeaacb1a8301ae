package etcd

import (
	"context"
	"errors"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coracle-eks/coracle/internal/diskspace"
)

// etcd ends when the disk is full. So it takes no more before, of clusters first, and what makes space is never
// refused.
func TestAFullDiskRefusesWrites(t *testing.T) {
	t.Parallel()
	put := &pb.PutRequest{Key: []byte("k"), Value: []byte("v")}
	putTxn := &pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: put}}}}
	deletion := &pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestDeleteRange{
		RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte("k")},
	}}}}
	for name, test := range map[string]struct {
		cluster string
		free    int64
		err     error
		request any
		refused bool
	}{
		"a put of a cluster":         {cluster: "c", free: diskspace.Cluster - 1, request: put, refused: true},
		"a transaction of a cluster": {cluster: "c", free: diskspace.Cluster - 1, request: putTxn, refused: true},
		"a lease of a cluster": {cluster: "c", free: diskspace.Cluster - 1, request: &pb.LeaseGrantRequest{},
			refused: true},
		"a cluster that has space":       {cluster: "c", free: diskspace.Cluster, request: put},
		"the daemon where clusters end":  {free: diskspace.Cluster - 1, request: put},
		"a put of the daemon":            {free: diskspace.Daemon - 1, request: put, refused: true},
		"a deletion":                     {cluster: "c", request: deletion},
		"a read":                         {cluster: "c", request: &pb.RangeRequest{}},
		"a compaction":                   {request: &pb.CompactionRequest{}},
		"a disk that cannot be measured": {cluster: "c", err: errors.New("no"), request: put},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &disk{
				dir: "/data", free: func(string) (int64, error) { return test.free, test.err },
				cluster: func(context.Context) (string, error) { return test.cluster, nil }, log: zap.NewNop,
			}
			handled := false
			_, err := d.unary(t.Context(), test.request, nil, func(context.Context, any) (any, error) {
				handled = true
				return nil, nil
			})
			if refused := status.Code(err) == codes.ResourceExhausted; refused != test.refused ||
				handled == test.refused {
				t.Errorf("handled: %v, error: %v", handled, err)
			}
		})
	}
}
