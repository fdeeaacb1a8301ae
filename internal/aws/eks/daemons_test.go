package eks_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	coracle "github.com/coracle-eks/coracle/internal/aws/eks"
	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// Two daemons share one etcd, and each judges by its own mirror of it. Still no two updates of a cluster run at once,
// no name is given twice, and no change is lost.
func TestTwoDaemons(t *testing.T) {
	t.Parallel()
	client, prefix := storetest.Client(t), storetest.Prefix(t)
	var services []*coracle.Service
	addons, err := ekstest.OpenCatalog()
	if err != nil {
		t.Fatal(err)
	}
	w := ekstest.NewUnserved(t)
	for range 2 {
		s, err := store.Open(t.Context(), client, store.Options{Prefix: prefix, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		w.Store = s
		services = append(services, coracle.New(coracle.Options{Store: s, ServiceLinkedRoles: w.ServiceLinkedRoles(),
			Catalog: addons}))
	}
	w.Seed()
	ctx := wire.WithAuthorizer(wire.WithRegion(wire.WithCaller(t.Context(), w.Caller), ekstest.Region), w.Authorizer())

	// both has both daemons do something and counts the successes; the others must be refused as in use.
	both := func(what string, do func(context.Context, *coracle.Service, int) error) (done int) {
		t.Helper()
		errs := make(chan error)
		for i, s := range services {
			go func() { errs <- do(ctx, s, i) }()
		}
		for range services {
			err := <-errs
			var inUse *types.ResourceInUseException
			switch {
			case err == nil:
				done++
			case !errors.As(err, &inUse):
				t.Errorf("%s: refused with %v", what, err)
			}
		}
		return done
	}
	// The daemon that did not seed reads the roles and subnets once its mirror has them.
	for _, s := range services {
		eventually.True(t, "a daemon sees the roles and subnets", func() bool {
			_, err := s.Clusters.CreateCluster(ctx, ekstest.Request("warm"))
			var exists *types.ResourceInUseException
			return err == nil || errors.As(err, &exists)
		})
	}
	if n := both("create", func(ctx context.Context, s *coracle.Service, _ int) error {
		_, err := s.Clusters.CreateCluster(ctx, ekstest.Request("c"))
		return err
	}); n != 1 {
		t.Errorf("created by %d daemons", n)
	}
	w.Ready("c")
	for _, s := range services {
		eventually.True(t, "a daemon sees the cluster ACTIVE", func() bool {
			out, err := s.Clusters.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: aws.String("c")})
			return err == nil && out.Cluster.Status == types.ClusterStatusActive
		})
	}
	if n := both("create an add-on", func(ctx context.Context, s *coracle.Service, i int) error {
		_, err := s.Addons.CreateAddon(ctx, &eks.CreateAddonInput{ClusterName: aws.String("c"),
			AddonName: aws.String("coredns"), Tags: map[string]string{"by": string(rune('0' + i))}})
		return err
	}); n != 1 {
		t.Errorf("%d daemons created the add-on", n)
	}
	for round := range 20 {
		on := round%2 == 0
		updates := make([]*types.Update, len(services))
		n := both("update", func(ctx context.Context, s *coracle.Service, i int) error {
			in := &eks.UpdateClusterConfigInput{Name: aws.String("c"), DeletionProtection: &on}
			if i == 1 {
				in = &eks.UpdateClusterConfigInput{Name: aws.String("c"),
					ZonalShiftConfig: &types.ZonalShiftConfigRequest{Enabled: &on}}
			}
			out, err := s.Clusters.UpdateClusterConfig(ctx, in)
			if err == nil {
				updates[i] = out.Update
				return nil
			}
			var same *types.InvalidParameterException // a round before, the other one won
			if errors.As(err, &same) {
				return &types.ResourceInUseException{}
			}
			return err
		})
		if n > 1 {
			t.Fatalf("round %d: %d updates started", round, n)
		}
		for _, u := range updates {
			if u == nil {
				continue
			}
			eventually.True(t, "the controller's daemon sees the update", func() bool {
				_, err := record.Updates(w.Store).Get(ctx, record.UpdateKey(ekstest.Account, ekstest.Region, "c",
					*u.Id))
				return err == nil
			})
			w.Finish("c", *u.Id, types.UpdateStatusSuccessful)
			for _, s := range services {
				eventually.True(t, "a daemon sees the end of the update", func() bool {
					out, err := s.Updates.DescribeUpdate(ctx, &eks.DescribeUpdateInput{Name: aws.String("c"),
						UpdateId: u.Id})
					return err == nil && out.Update.Status == types.UpdateStatusSuccessful
				})
			}
		}
	}
	// Tags of both daemons are kept.
	for round := range 10 {
		n := both("tag", func(ctx context.Context, s *coracle.Service, i int) error {
			_, err := s.Tags.TagResource(ctx, &eks.TagResourceInput{ResourceArn: aws.String(ekstest.ClusterARN + "c"),
				Tags: map[string]string{string(rune('a'+round)) + string(rune('0'+i)): ""}})
			return err
		})
		if n != 2 {
			t.Errorf("%d daemons tagged", n)
		}
	}
	eventually.True(t, "the tags of both daemons are there", func() bool { return len(w.Row("c").Tags) == 20 })
}
