package eks_test

import (
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"

	coracle "github.com/coracle-eks/coracle/internal/aws/eks"
	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// What the service itself adds to a DescribeCluster. Wire's share, the signature, the permission and the network, is
// measured with the whole daemon.
func BenchmarkDescribeCluster(b *testing.B) {
	w := ekstest.New(b)
	w.Create("c")
	// A cluster with a past must not cost more than one without.
	for i := range 200 {
		id := fmt.Sprint("u", i)
		ekstest.Put(w.T, record.Updates(w.Store), record.UpdateKey(ekstest.Account, ekstest.Region, "c", id),
			record.Update{ID: id, ClusterID: w.Row("c").ID})
	}
	service := coracle.New(coracle.Options{Store: w.Store})
	in := &eks.DescribeClusterInput{Name: aws.String("c")}
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(p *testing.PB) {
		ctx := wire.WithRegion(wire.WithCaller(b.Context(), w.Caller), ekstest.Region)
		for p.Next() {
			if _, err := service.Clusters.DescribeCluster(ctx, in); err != nil {
				b.Fatal(err)
			}
		}
	})
}
