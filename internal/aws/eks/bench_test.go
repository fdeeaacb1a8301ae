package eks_test

import (
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"

	coracle "github.com/coracle-eks/coracle/internal/aws/eks"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// What the service itself adds to a DescribeCluster. Wire's share, the signature, the permission and the network, is
// measured with the whole daemon.
func BenchmarkDescribeCluster(b *testing.B) {
	w := newWorld(b)
	w.create("c")
	// A cluster with a past must not cost more than one without.
	for i := range 200 {
		id := fmt.Sprint("u", i)
		put(w, record.Updates(w.store), record.UpdateKey(account, region, "c", id), record.Update{ID: id, ClusterID: w.row("c").ID})
	}
	service := coracle.New(coracle.Options{Store: w.store})
	in := &eks.DescribeClusterInput{Name: aws.String("c")}
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(p *testing.PB) {
		ctx := wire.WithRegion(wire.WithCaller(b.Context(), w.caller), region)
		for p.Next() {
			if _, err := service.Clusters.DescribeCluster(ctx, in); err != nil {
				b.Fatal(err)
			}
		}
	})
}
