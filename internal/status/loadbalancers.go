package status

import (
	"context"

	"github.com/coracle-eks/coracle/internal/admin"
	"github.com/coracle-eks/coracle/internal/balancing"
	"github.com/coracle-eks/coracle/internal/record"
)

// loadBalancers returns the load balancers of all accounts, with the health of their targets and what is wrong with
// them.
func (r *Reporter) loadBalancers(ctx context.Context) ([]admin.LoadBalancer, error) {
	rows, err := record.LoadBalancers(r.o.Store).List(ctx, "")
	if err != nil {
		return nil, err
	}
	observed, err := record.LoadBalancerStatuses(r.o.Store).List(ctx, "")
	if err != nil {
		return nil, err
	}
	statuses := map[string]record.LoadBalancerStatus{}
	for _, row := range observed {
		statuses[row.Key] = row.Value
	}
	reader := balancing.NewReader(r.o.Store)
	all := make([]admin.LoadBalancer, 0, len(rows))
	for _, row := range rows {
		b, status := row.Value, statuses[row.Key]
		out := admin.LoadBalancer{Account: b.Account, Region: b.Region, Name: b.Name, Kind: b.Kind, DNSName: b.DNSName,
			Service: b.Tags["kubernetes.io/service-name"], State: "provisioning"}
		switch {
		case status.ID != b.ID:
		case status.Failure != "":
			out.State, out.Issues = "failed", []string{status.Failure}
		case status.Active:
			out.State = "active"
		}
		routes, err := reader.Routes(ctx, b)
		if err != nil {
			return nil, err
		}
		seen := map[string]bool{}
		for _, route := range routes {
			for _, pool := range route.Pools() {
				if seen[pool.Key] { // several listeners may lead to a pool
					continue
				}
				seen[pool.Key] = true
				for _, m := range pool.Members {
					if m.Deregistered.IsZero() {
						out.Targets++
					}
					if m.State == record.TargetHealthy {
						out.Healthy++
					}
				}
			}
		}
		all = append(all, out)
	}
	return all, nil
}
