package cluster

import (
	"context"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// DefaultPerRegion is the quota of clusters that an account has in a region, unless it is raised.
// https://docs.aws.amazon.com/eks/latest/userguide/service-quotas.html
const DefaultPerRegion = 100

// QuotaVariable is the variable of the environment that raises the quota, as a request to Service Quotas does on AWS.
const QuotaVariable = "CORACLE_CLUSTERS_PER_REGION"

// createWithinQuota records a new cluster, unless its account has as many as it may have. A daemon creates clusters one
// after the other: none slips in between the count and the record. No account has two that wait for others.
func (s *Service) createWithinQuota(ctx context.Context, c record.Cluster, ops ...store.Op) error {
	ctx, release, err := s.creating.Acquire(ctx, c.Account)
	if err != nil {
		return err
	}
	defer release()
	if s.Clusters.Count(store.Prefix(c.Account, c.Region)) >= s.perRegion {
		return exception.LimitExceeded(c.Name, "The quota of %d clusters in this account and region has been reached. "+
			"Delete some, or raise the quota: coracle serve reads it from %s", s.perRegion, QuotaVariable)
	}
	own, all := s.Clusters.Count(store.Prefix(c.Account)), s.Clusters.Count("")
	if s.mayAdd != nil && !s.mayAdd(own, all) {
		return exception.LimitExceeded(c.Name, "This account has %d of the %d clusters of all accounts and regions, as many "+
			"as it may have: each needs its part of the database, and others must find room for theirs. Delete some", own,
			all)
	}
	return s.Store.Txn(ctx, ops...)
}
