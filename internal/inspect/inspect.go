// Package inspect answers "coracle fields" and "coracle identity" (identity.go). For the first it reads an object of a
// cluster with the managers of its fields (object.go), and finds out by dry runs what a request to create or update an
// add-on would change. It changes nothing.
package inspect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/admin"
	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	"github.com/coracle-eks/coracle/internal/catalog"
	"github.com/coracle-eks/coracle/internal/controller/addon"
	"github.com/coracle-eks/coracle/internal/fields"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// reader is the user that reads objects for whoever owns the data directory: that of EKS for the operation of clusters.
// https://docs.aws.amazon.com/eks/latest/userguide/default-roles-users.html
const reader = "eks:support-engineer"

// readerConfig returns the configuration of the reader's clients of a cluster's API server, by kubectl.
func (i *Inspector) readerConfig(ctx context.Context, cluster record.Cluster, plane record.ControlPlane) (
	*rest.Config, error) {
	config, err := i.o.Config(ctx, cluster, reader, "system:masters")
	if err != nil {
		return nil, err
	}
	version, _, _ := strings.Cut(plane.FullVersion, "-")
	config = rest.CopyConfig(config)
	config.UserAgent = "kubectl/" + version + " (linux/amd64) kubernetes"
	return config, nil
}

// Options configures an Inspector.
type Options struct {
	Store *store.Store
	// Config returns the configuration of a user's client of a cluster's API server (controlplane.Controller.Config).
	Config  func(ctx context.Context, cluster record.Cluster, user string, groups ...string) (*rest.Config, error)
	Catalog *catalog.Catalog // of add-ons
	// Identity decides what roles may, and knows what was refused.
	Identity *identity.Identity
	Log      *slog.Logger
}

// Inspector answers questions about objects of clusters. Its methods may be called concurrently.
type Inspector struct{ o Options }

// New returns an Inspector.
func New(o Options) *Inspector { return &Inspector{o} }

// Fields reads an object with its owners, and finds out by dry runs what a request to create or update an add-on would
// change.
func (i *Inspector) Fields(ctx context.Context, q fields.Question) (fields.Answer, error) {
	cluster, plane, err := i.findCluster(ctx, q)
	if err != nil {
		return fields.Answer{}, err
	}
	config, err := i.readerConfig(ctx, cluster, plane)
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
		if asked.kind, err = objects.resolveKind(q.Type); err != nil {
			return a, err
		}
		asked.name = q.Name
		if asked.namespaced() {
			asked.namespace = q.Namespace
		}
		a.Resource, a.Namespace, a.Name = asked.singular, asked.namespace, asked.name
		if a.Content, err = objects.getObject(ctx, asked.kind, asked.namespace, asked.name); err != nil {
			return a, err
		}
		if a.Addon, err = i.addonOf(ctx, cluster, asked); err != nil {
			return a, err
		}
	}
	if q.WhatIf != nil {
		if a.Plan, err = i.planRequest(ctx, cluster, plane, asked, *q.WhatIf, objects); err != nil {
			return a, err
		}
	}
	if q.Type != "" && a.Content == nil && (a.Plan == nil || !planned(*a.Plan, asked)) {
		return a, objects.missing(ctx, asked.kind, asked.namespace, asked.name)
	}
	return a, nil
}

// askedObject is the object that a question is about.
type askedObject struct {
	kind
	namespace, name string
}

func (o askedObject) matches(apiVersion, kind, namespace, name string) bool {
	gv, err := schema.ParseGroupVersion(apiVersion)
	return err == nil && o.RESTMapping != nil && gv.Group == o.GroupVersionKind.Group &&
		kind == o.GroupVersionKind.Kind &&
		namespace == o.namespace &&
		name == o.name
}

func (o askedObject) String() string {
	if o.namespace == "" {
		return o.singular + " " + o.name
	}
	return o.singular + " " + o.name + " of namespace " + o.namespace
}

func planned(p fields.Plan, asked askedObject) bool {
	return slices.ContainsFunc(
		p.Objects,
		func(o fields.Planned) bool { return asked.matches(o.APIVersion, o.Kind, o.Namespace, o.Name) },
	)
}

// FindCluster returns the cluster that a question is about. The error is a *admin.Refused if there is no such cluster,
// or it does not serve yet.
func (i *Inspector) FindCluster(ctx context.Context, q fields.Question) (record.Cluster, error) {
	cluster, _, err := i.findCluster(ctx, q)
	return cluster, err
}

// findCluster returns the cluster that a question is about, with its control plane. The error is a *admin.Refused if
// there is no such cluster, or it does not serve yet.
func (i *Inspector) findCluster(ctx context.Context, q fields.Question) (record.Cluster, record.ControlPlane, error) {
	rows, err := record.Clusters(i.o.Store).List(ctx, "")
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
		return cluster, record.ControlPlane{}, &admin.Refused{
			Reason: "there is no cluster: make one with \"aws eks create-cluster\", or see \"coracle demo\"",
		}
	case len(named) == 0:
		return cluster, record.ControlPlane{}, &admin.Refused{
			Reason: fmt.Sprintf("there is no cluster %s; there are: %s", q.Cluster, strings.Join(names, ", ")),
		}
	case len(named) > 1 && q.Cluster == "":
		return cluster, record.ControlPlane{}, &admin.Refused{
			Reason: "which cluster? Give --cluster one of: " + strings.Join(names, ", "),
		}
	case len(named) > 1:
		var arns []string
		for _, c := range named {
			arns = append(arns, c.ARN())
		}
		return cluster, record.ControlPlane{}, &admin.Refused{
			Reason: "which cluster " + q.Cluster + "? Give --cluster one of: " + strings.Join(arns, ", "),
		}
	}
	cluster = named[0]
	plane, err := record.ControlPlanes(i.o.Store).Get(ctx, cluster.Key())
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return cluster, record.ControlPlane{}, err
	}
	if err != nil || !plane.Value.Ready || plane.Value.ClusterID != cluster.ID {
		return cluster, record.ControlPlane{}, &admin.Refused{
			Reason: "the API server of cluster " + cluster.Name + " does not serve yet: " +
				"aws eks wait cluster-active --name " + cluster.Name,
		}
	}
	return cluster, plane.Value, nil
}

// addonOf returns the add-on that has an object; nil when none has.
func (i *Inspector) addonOf(ctx context.Context, cluster record.Cluster, asked askedObject) (*fields.Addon, error) {
	states, err := record.AddonStates(i.o.Store).
		List(ctx, record.AddonKey(cluster.Account, cluster.Region, cluster.Name, ""))
	if err != nil {
		return nil, err
	}
	for _, row := range states {
		if !slices.ContainsFunc(row.Value.Objects, func(o record.AddonObject) bool {
			return asked.matches(o.APIVersion, o.Kind, o.Namespace, o.Name)
		}) {
			continue
		}
		a, err := record.Addons(i.o.Store).Get(ctx, row.Key)
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

// planRequest returns what a request would do, as the controller of add-ons finds out before it does anything.
func (i *Inspector) planRequest(
	ctx context.Context, cluster record.Cluster, plane record.ControlPlane, asked askedObject, w fields.WhatIf,
	objects *objects,
) (*fields.Plan, error) {
	entry, err := i.findAddon(ctx, cluster, plane, asked, w)
	if err != nil {
		return nil, err
	}
	key := record.AddonKey(cluster.Account, cluster.Region, cluster.Name, entry.Name)
	row, err := record.Addons(i.o.Store).Get(ctx, key)
	exists := err == nil
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	state, err := record.AddonStates(i.o.Store).Get(ctx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	p := &fields.Plan{Request: "create-addon", Addon: entry.Name, Conflicts: w.Conflicts}
	wanted := record.AddonConfig{Namespace: entry.DefaultNamespace}
	if exists && state.Value.AddonID == row.Value.ID && state.Value.Created {
		p.Request, p.From, wanted = "update-addon", state.Value.Applied.Version, state.Value.Applied
	} else if v, ok := entry.Default(plane.Version); ok {
		wanted.Version = v.Version
	}
	if w.Version != "" {
		wanted.Version = w.Version
	}
	if w.Configuration != nil {
		wanted.Configuration = *w.Configuration
	}
	// An update that does not speak of a role takes it away, as on EKS.
	wanted.ServiceAccountRoleARN = ""
	if w.Role != nil {
		wanted.ServiceAccountRoleARN = *w.Role
	}
	wanted.Conflicts = ekstypes.ResolveConflicts(w.Conflicts)
	if p.From == "" && wanted.Conflicts == ekstypes.ResolveConflictsPreserve {
		// there is nothing yet that could be preserved: see fields.Plan
		wanted.Conflicts = ekstypes.ResolveConflictsNone
	}
	p.Version = wanted.Version
	version, ok := entry.Version(wanted.Version)
	if !ok || !version.Serves(plane.Version) {
		return nil, &admin.Refused{
			Reason: fmt.Sprintf(
				"the add-on %s has no version %q for Kubernetes %s; there are: %s",
				entry.Name, wanted.Version, plane.Version, strings.Join(versionsFor(entry, plane.Version), ", "),
			),
		}
	}
	if err := version.Check(ctx, wanted.Configuration); err != nil {
		return nil, &admin.Refused{Reason: err.Error()}
	}
	rendered, err := version.Render(
		catalog.RenderOptions{Cluster: cluster, Endpoint: plane.Endpoint, Minor: plane.Version, Config: wanted},
	)
	if err != nil {
		return nil, err
	}
	config, err := i.o.Config(ctx, cluster, addon.User)
	if err != nil {
		return nil, err
	}
	changes, err := addon.Plan(ctx, config, cluster.Name, rendered, state.Value.Objects, wanted.Conflicts)
	if err != nil {
		return nil, fmt.Errorf("the dry run of the add-on %s: %w", entry.Name, err)
	}
	for _, c := range changes {
		o := fields.Planned{
			APIVersion: c.Object.APIVersion,
			Kind:       c.Object.Kind,
			Namespace:  c.Object.Namespace,
			Name:       c.Object.Name,
			Resource:   strings.ToLower(c.Object.Kind),
			Kept:       c.Kept,
		}
		if k, err := objects.kindForObject(o.APIVersion, o.Kind); err == nil {
			// a custom resource's type may be yet to come
			o.Resource = k.singular
		}
		if c.Live != nil {
			o.Live = c.Live.Object
		}
		if c.Result != nil {
			o.Result = c.Result.Object
		}
		if c.Wanted != nil {
			o.Wanted = c.Wanted.Object
		}
		for _, x := range c.Conflicts {
			o.Conflicts = append(o.Conflicts, fields.Conflict{Manager: x.Manager, Path: x.Path})
		}
		if len(c.Conflicts) == 0 && c.Refused != nil && c.Refused.Message != nil {
			o.Refused = string(c.Refused.Code) + ": " + *c.Refused.Message
		}
		p.Objects = append(p.Objects, o)
	}
	return p, nil
}

// findAddon returns the add-on of the catalog that a request is about: by its name, or because it has the object.
func (i *Inspector) findAddon(
	ctx context.Context, cluster record.Cluster, plane record.ControlPlane, asked askedObject, w fields.WhatIf,
) (catalog.Addon, error) {
	if w.Addon == "" {
		has, err := i.addonOf(ctx, cluster, asked)
		if err != nil {
			return catalog.Addon{}, err
		}
		if has != nil {
			w.Addon = has.Name
		}
	}
	var names []string
	for _, entry := range i.o.Catalog.Addons() {
		names = append(names, entry.Name)
		if w.Addon == entry.Name {
			return entry, nil
		}
		if w.Addon != "" {
			continue
		}
		version, ok := entry.Version(w.Version)
		if !ok || !version.Serves(plane.Version) {
			if version, ok = entry.Default(plane.Version); !ok {
				continue
			}
		}
		rendered, err := version.Render(
			catalog.RenderOptions{
				Cluster:  cluster,
				Endpoint: plane.Endpoint,
				Minor:    plane.Version,
				Config:   record.AddonConfig{Version: version.Version, Namespace: entry.DefaultNamespace},
			},
		)
		if err != nil {
			i.o.Log.Debug("cannot render an add-on", "addon", entry.Name, "version", version.Version, "error", err)
			continue // it may need a configuration
		}
		if slices.ContainsFunc(rendered, func(o catalog.Object) bool {
			return asked.matches(o.GetAPIVersion(), o.GetKind(), o.GetNamespace(), o.GetName())
		}) {
			return entry, nil
		}
	}
	if w.Addon != "" {
		return catalog.Addon{}, &admin.Refused{
			Reason: fmt.Sprintf("there is no add-on %s; there are: %s", w.Addon, strings.Join(names, ", ")),
		}
	}
	return catalog.Addon{}, &admin.Refused{
		Reason: fmt.Sprintf(
			"no add-on has a %s, so none would change it; name the one that you mean with --addon, of: %s",
			asked, strings.Join(names, ", "),
		),
	}
}

// versionsFor returns an add-on's versions that can be used with a Kubernetes version.
func versionsFor(entry catalog.Addon, minor string) []string {
	var all []string
	for _, v := range entry.Versions {
		if v.Serves(minor) {
			all = append(all, v.Version)
		}
	}
	return all
}
