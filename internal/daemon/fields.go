package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/coracle-eks/coracle/internal/admin"
	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/fields"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// reader is who reads objects for `coracle fields`: whoever owns the data directory, and nobody of EKS's.
const reader = "coracle"

// Fields reads an object with its owners, and finds out what a request to create or update an add-on would change, by dry runs.
func (d *daemon) Fields(ctx context.Context, q fields.Question) (fields.Answer, error) {
	cluster, _, err := d.serving(ctx, q)
	if err != nil {
		return fields.Answer{}, err
	}
	config, err := d.clusters.planes.Config(ctx, cluster, reader, "system:masters")
	if err != nil {
		return fields.Answer{}, err
	}
	objects, err := openObjects(cluster.Name, config)
	if err != nil {
		return fields.Answer{}, err
	}
	defer objects.close()
	a := fields.Answer{Account: cluster.Account, Region: cluster.Region, Cluster: cluster.Name}
	asked := askedObject{}
	if q.Type != "" {
		if asked.kind, err = objects.kind(q.Type); err != nil {
			return a, err
		}
		asked.name = q.Name
		if asked.namespaced() {
			asked.namespace = q.Namespace
		}
		a.Resource, a.Namespace, a.Name = asked.singular, asked.namespace, asked.name
		if a.Content, err = objects.get(ctx, asked.kind, asked.namespace, asked.name); err != nil {
			return a, err
		}
		if a.Addon, err = d.addonOf(ctx, cluster, asked); err != nil {
			return a, err
		}
	}
	if q.Type != "" && a.Content == nil && (a.Plan == nil || !planned(*a.Plan, asked)) {
		return a, objects.missing(ctx, asked.kind, asked.namespace, asked.name)
	}
	return a, nil
}

// askedObject is the one that a question is about.
type askedObject struct {
	kind
	namespace, name string
}

func (o askedObject) is(apiVersion, kind, namespace, name string) bool {
	gv, err := schema.ParseGroupVersion(apiVersion)
	return err == nil && o.RESTMapping != nil && gv.Group == o.GroupVersionKind.Group && kind == o.GroupVersionKind.Kind && namespace == o.namespace && name == o.name
}

func (o askedObject) String() string {
	if o.namespace == "" {
		return o.singular + " " + o.name
	}
	return o.singular + " " + o.name + " of namespace " + o.namespace
}

func planned(p fields.Plan, asked askedObject) bool {
	return slices.ContainsFunc(p.Objects, func(o fields.Planned) bool { return asked.is(o.APIVersion, o.Kind, o.Namespace, o.Name) })
}

// serving is the cluster that a question means, with its control plane. The error of one that there is not, or that does not serve yet, is a *admin.Refused.
func (d *daemon) serving(ctx context.Context, q fields.Question) (record.Cluster, record.ControlPlane, error) {
	rows, err := record.Clusters(d.store).List(ctx, "")
	if err != nil {
		return record.Cluster{}, record.ControlPlane{}, err
	}
	var named, near []record.Cluster
	var names []string
	for _, row := range rows {
		c := row.Value
		names = append(names, c.Name)
		if q.Cluster != "" && q.Cluster != c.Name && q.Cluster != c.ARN() {
			continue
		}
		named = append(named, c)
		if c.Account == q.Account && c.Region == q.Region {
			near = append(near, c)
		}
	}
	if len(named) > 1 && len(near) > 0 {
		named = near
	}
	var cluster record.Cluster
	switch {
	case len(rows) == 0:
		return cluster, record.ControlPlane{}, &admin.Refused{Reason: "there is no cluster: make one with \"aws eks create-cluster\", or see \"coracle demo\""}
	case len(named) == 0:
		return cluster, record.ControlPlane{}, &admin.Refused{Reason: fmt.Sprintf("there is no cluster %s; there are: %s", q.Cluster, strings.Join(names, ", "))}
	case len(named) > 1 && q.Cluster == "":
		return cluster, record.ControlPlane{}, &admin.Refused{Reason: "which cluster? Give --cluster one of: " + strings.Join(names, ", ")}
	case len(named) > 1:
		var arns []string
		for _, c := range named {
			arns = append(arns, c.ARN())
		}
		return cluster, record.ControlPlane{}, &admin.Refused{Reason: "which cluster " + q.Cluster + "? Give --cluster one of: " + strings.Join(arns, ", ")}
	}
	cluster = named[0]
	plane, err := record.ControlPlanes(d.store).Get(ctx, cluster.Key())
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return cluster, record.ControlPlane{}, err
	}
	if err != nil || !plane.Value.Ready || plane.Value.ClusterID != cluster.ID {
		return cluster, record.ControlPlane{}, &admin.Refused{Reason: "the API server of cluster " + cluster.Name + " does not serve yet: aws eks wait cluster-active --name " + cluster.Name}
	}
	return cluster, plane.Value, nil
}

// addonOf is the add-on that has an object; nil when none has.
func (d *daemon) addonOf(ctx context.Context, cluster record.Cluster, asked askedObject) (*fields.Addon, error) {
	states, err := record.AddonStates(d.store).List(ctx, record.AddonKey(cluster.Account, cluster.Region, cluster.Name, ""))
	if err != nil {
		return nil, err
	}
	for _, row := range states {
		if !slices.ContainsFunc(row.Value.Objects, func(o record.AddonObject) bool {
			return asked.is(o.APIVersion, o.Kind, o.Namespace, o.Name)
		}) {
			continue
		}
		a, err := record.Addons(d.store).Get(ctx, row.Key)
		if errors.Is(err, store.ErrNotFound) || err == nil && a.Value.ID != row.Value.AddonID {
			continue
		}
		if err != nil {
			return nil, err
		}
		version := row.Value.Applied.Version
		if version == "" {
			version = a.Value.Wanted.Version // it is being created
		}
		return &fields.Addon{Name: a.Value.Name, Version: version}, nil
	}
	return nil, nil
}

// AskFields asks the daemon of dir. Clusters of the account and region that it began with go before others of their name.
func AskFields(ctx context.Context, dir datadir.Dir, q fields.Question) (fields.Answer, error) {
	s, err := dir.ReadSettings()
	if errors.Is(err, fs.ErrNotExist) {
		return fields.Answer{}, notRunning(dir)
	}
	if err != nil {
		return fields.Answer{}, err
	}
	q.Account, q.Region = s.Account, s.Region
	a, err := admin.NewClient(dir.Socket()).Fields(ctx, q)
	if errors.Is(err, admin.ErrNotRunning) {
		return a, notRunning(dir)
	}
	return a, err
}
