package image

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/upstream"
)

// NodeImages returns the directory with the images that the AMIs of a Kubernetes version have in their cache, unpacked
// as Golden does. It builds the programs and assembles the images that are missing.
func (r *Registry) NodeImages(ctx context.Context, region, minor string) (dir string, err error) {
	err = r.options.Programs.Ensure(ctx, upstream.Milestones(func(p upstream.Progress) {
		r.options.Log.Info("building the programs that nodes need", "progress", p)
	}))
	if err != nil {
		return "", err
	}
	if err := r.Assemble(ctx, minor); err != nil {
		return "", err
	}
	return r.Golden(ctx, slices.Sorted(maps.Values(References(region, minor))))
}

// NodeImageController returns a controller that makes the images of a cluster's nodes when its control plane is ready,
// so that its first machine does not wait for them. It reads clusters and control planes, and writes no rows.
func (r *Registry) NodeImageController(s *store.Store) reconcile.Controller {
	planes := record.ControlPlanes(s)
	clusters := record.Clusters(s)
	return reconcile.Controller{
		Name:    "images",
		Sources: []reconcile.Source{reconcile.Table(planes, "")},
		Reconcile: func(ctx context.Context, key string) (reconcile.Result, error) {
			plane, err := planes.Get(ctx, key)
			if errors.Is(err, store.ErrNotFound) || err == nil && !plane.Value.Ready {
				return reconcile.Result{}, nil
			}
			if err != nil {
				return reconcile.Result{}, err
			}
			cluster, err := clusters.Get(ctx, key)
			if errors.Is(err, store.ErrNotFound) {
				return reconcile.Result{}, nil
			}
			if err != nil {
				return reconcile.Result{}, err
			}
			_, err = r.NodeImages(ctx, cluster.Value.Region, plane.Value.Version)
			return reconcile.Result{}, err
		},
	}
}
