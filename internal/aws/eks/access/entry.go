package access

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/uuid"

	"github.com/coracle-eks/coracle/internal/aws/eks/accesspolicy"
	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/principal"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Types of access entries.
// https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html
const (
	standard      = "STANDARD"
	ec2Linux      = "EC2_LINUX"
	ec2Windows    = "EC2_WINDOWS"
	ec2Auto       = "EC2" // nodes of EKS Auto Mode
	fargateLinux  = "FARGATE_LINUX"
	hybridLinux   = "HYBRID_LINUX"
	hyperpodLinux = "HYPERPOD_LINUX"
)

var entryTypes = []string{standard, ec2Linux, ec2Windows, ec2Auto, fargateLinux, hybridLinux, hyperpodLinux}

// nodeIdentity is the Kubernetes identity of the holder of a node's role, by type of entry.
var nodeIdentity = map[string]struct {
	username string
	groups   []string
}{
	ec2Linux:   {"system:node:{{EC2PrivateDNSName}}", []string{"system:nodes"}},
	ec2Windows: {"system:node:{{EC2PrivateDNSName}}", []string{"eks:kube-proxy-windows", "system:nodes"}},
	ec2Auto:    {"system:node:{{EC2PrivateDNSName}}", []string{"system:nodes"}},
	fargateLinux: {
		"system:node:{{SessionName}}",
		[]string{"system:bootstrappers", "system:node-proxier", "system:nodes"},
	},
	hybridLinux:   {"system:node:{{SessionName}}", []string{"system:nodes"}},
	hyperpodLinux: {"system:node:{{SessionName}}", []string{"system:nodes"}},
}

// Templates in usernames: the name of the role's session, with "@" as "-" or as it is.
const (
	sessionName    = "{{SessionName}}"
	sessionNameRaw = "{{SessionNameRaw}}"
)

// defaultUsername returns the Kubernetes user that EKS chooses for a STANDARD entry. A role's path is not part of it.
func defaultUsername(p principal.Principal) string {
	if p.Kind == "role" {
		partition := strings.Split(p.ARN, ":")[1]
		return "arn:" + partition + ":sts::" + p.Account + ":assumed-role/" + p.Name + "/" + sessionName
	}
	return p.ARN
}

// CreatorEntryOp lets the creator of a cluster in, as its administrator. It writes over what an earlier cluster of that
// name left.
func (s *Service) CreatorEntryOp(c record.Cluster) store.Op {
	p, _ := principal.Parse(c.CreatorARN)
	now := s.Timestamp()
	return s.AccessEntries.PutOp(record.AccessEntryKey(c.Account, c.Region, c.Name, c.CreatorARN), record.AccessEntry{
		ClusterID:    c.ID,
		PrincipalARN: c.CreatorARN,
		PrincipalID:  c.CreatorID,
		ID:           uuid.NewString(),
		Type:         standard,
		Username:     defaultUsername(p),
		CreatedAt:    now,
		ModifiedAt:   now,
		Policies: []record.AccessPolicyAssociation{{
			PolicyARN: accesspolicy.ClusterAdmin, Scope: types.AccessScopeTypeCluster, AssociatedAt: now,
			ModifiedAt: now,
		}},
	})
}

// clusterWithEntries returns a cluster whose authentication mode uses access entries.
func (s *Service) clusterWithEntries(ctx context.Context, name string) (store.Row[record.Cluster], error) {
	row, err := s.Cluster(ctx, name)
	if err != nil {
		return row, err
	}
	if row.Value.AuthenticationMode == types.AuthenticationModeConfigMap {
		return row, exception.InvalidRequest(
			name,
			"The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP] to perform this "+
				"operation.",
		)
	}
	return row, nil
}

// changeableCluster is like clusterWithEntries, for an operation that writes.
func (s *Service) changeableCluster(ctx context.Context, name string) (store.Row[record.Cluster], error) {
	row, err := s.clusterWithEntries(ctx, name)
	if err == nil && row.Value.Deleting {
		return row, exception.InvalidRequest(
			name, "Cluster %s is being deleted: its access entries can't be changed", name,
		)
	}
	return row, err
}

// entry returns the access entry of a principal.
func (s *Service) entry(
	ctx context.Context, c record.Cluster, principalARN string,
) (store.Row[record.AccessEntry], error) {
	row, err := s.AccessEntries.Copy(ctx, record.AccessEntryKey(c.Account, c.Region, c.Name, principalARN))
	if errors.Is(err, store.ErrNotFound) || err == nil && row.Value.ClusterID != c.ID {
		return row, exception.NotFound(
			c.Name,
			"The specified principalArn could not be found. You can view your available access entries with "+
				"'list-access-entries'.",
		)
	}
	return row, err
}

// entryHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) entryHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateAccessEntry, func(
			ctx context.Context, action string, in *eks.CreateAccessEntryInput,
		) ([]wire.Target, error) {
			targets, err := s.OnCluster(ctx, action, in.ClusterName, func(c resource.Conditions) {
				c.RequestTags(in.Tags)
				c.Text("eks:clusterName", aws.ToString(in.ClusterName))
				c.Text("eks:principalArn", aws.ToString(in.PrincipalArn))
				c.Text("eks:username", aws.ToString(in.Username))
				c.Text("eks:accessEntryType", orStandard(in.Type))
				c.List("eks:kubernetesGroups", in.KubernetesGroups)
			})
			arn := resource.EntryARN(resource.ScopeOf(ctx), record.AccessEntry{PrincipalARN: aws.ToString(in.PrincipalArn),
				ID: "*"}, aws.ToString(in.ClusterName))
			return resource.WithTagging(targets, arn, in.Tags), err
		}),
		wire.Handle(s.DescribeAccessEntry, func(
			ctx context.Context, action string, in *eks.DescribeAccessEntryInput,
		) ([]wire.Target, error) {
			return s.onEntry(ctx, action, in.ClusterName, in.PrincipalArn)
		}),
		wire.Handle(s.ListAccessEntries, func(
			ctx context.Context, action string, in *eks.ListAccessEntriesInput,
		) ([]wire.Target, error) {
			return s.OnCluster(ctx, action, in.ClusterName)
		}),
		wire.Handle(s.UpdateAccessEntry, func(
			ctx context.Context, action string, in *eks.UpdateAccessEntryInput,
		) ([]wire.Target, error) {
			return s.onEntry(ctx, action, in.ClusterName, in.PrincipalArn, func(c resource.Conditions) {
				c.Text("eks:username", aws.ToString(in.Username))
				c.List("eks:kubernetesGroups", in.KubernetesGroups)
			})
		}),
		wire.Handle(s.DeleteAccessEntry, func(
			ctx context.Context, action string, in *eks.DeleteAccessEntryInput,
		) ([]wire.Target, error) {
			return s.onEntry(ctx, action, in.ClusterName, in.PrincipalArn)
		}),
	}
}

// CreateAccessEntry lets an IAM principal into a cluster.
func (s *Service) CreateAccessEntry(
	ctx context.Context, in *eks.CreateAccessEntryInput,
) (*eks.CreateAccessEntryOutput, error) {
	name := aws.ToString(in.ClusterName)
	hash := wire.Fingerprint(in)
	for {
		cluster, err := s.changeableCluster(ctx, name)
		if err != nil {
			return nil, err
		}
		c := cluster.Value
		p, id, err := s.checkPrincipal(ctx, name, aws.ToString(in.PrincipalArn))
		if err != nil {
			return nil, err
		}
		key := record.AccessEntryKey(c.Account, c.Region, c.Name, p.ARN)
		old, err := s.AccessEntries.Get(ctx, key)
		there := err == nil
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		if there && old.Value.ClusterID == c.ID {
			same, err := wire.Repeated(
				ctx, in.ClientRequestToken, hash, old.Value.ClientRequestToken, old.Value.RequestHash,
			)
			if err != nil {
				return nil, err
			}
			if !same {
				return nil, exception.InUse(
					name, "The specified access entry resource is already in use on this cluster.",
				)
			}
			return &eks.CreateAccessEntryOutput{AccessEntry: describeEntry(c, old.Value)}, nil
		}
		e, err := s.newEntry(ctx, name, p, in)
		if err != nil {
			return nil, err
		}
		e.PrincipalID = id
		e.ClusterID, e.ClientRequestToken, e.RequestHash = c.ID, aws.ToString(in.ClientRequestToken), hash
		op := s.AccessEntries.CreateOp(key, e)
		if there { // left by an earlier cluster of that name
			old.Value = e
			op = s.AccessEntries.UpdateOp(old)
		}
		// The cluster must not be deleted, or its authentication mode change, in between.
		err = s.Store.Txn(ctx, s.Clusters.CheckOp(cluster), op)
		if resource.LostRace(err) {
			continue
		} else if err != nil {
			return nil, err
		}
		return &eks.CreateAccessEntryOutput{AccessEntry: describeEntry(c, e)}, nil
	}
}

// checkPrincipal returns the principal of an entry to be created, and its unique ID if it is known here.
func (s *Service) checkPrincipal(ctx context.Context, cluster, arn string) (principal.Principal, string, error) {
	p, ok := principal.Parse(arn)
	if !ok {
		return p, "", exception.InvalidParameter(
			cluster, "The specified principalArn is invalid: %s is not the ARN of an IAM user or role.", arn,
		)
	}
	if p.ServiceLinked() {
		return p, "", exception.InvalidParameter(
			cluster,
			"The caller is not allowed to modify access entries with a principalArn value of a Service Linked Role",
		)
	}
	_, id, exists, err := s.principals.Lookup(ctx, p)
	// Other accounts may be beyond this machine: who is not found in them is taken on trust.
	if p.Account != resource.ScopeOf(ctx).Account {
		return p, id, err
	}
	if err == nil && !exists {
		err = exception.InvalidParameter(cluster, "The specified principalArn is invalid: invalid principal.")
	}
	return p, id, err
}

// newEntry validates a request and returns the entry that it asks for.
func (s *Service) newEntry(
	ctx context.Context, cluster string, p principal.Principal, in *eks.CreateAccessEntryInput,
) (record.AccessEntry, error) {
	now := s.Timestamp()
	e := record.AccessEntry{
		PrincipalARN: p.ARN,
		ID:           uuid.NewString(),
		Type:         aws.ToString(in.Type),
		Tags:         in.Tags,
		CreatedAt:    now,
		ModifiedAt:   now,
	}
	if e.Type == "" {
		e.Type = standard
	}
	if !slices.Contains(entryTypes, e.Type) {
		return e, exception.InvalidParameter(
			cluster, "The specified type %s is invalid. Valid types are: %s", e.Type, exception.List(entryTypes),
		)
	}
	if fault := resource.TagFault(ctx, in.Tags); fault != "" {
		return e, exception.InvalidParameter(cluster, "%s", fault)
	}
	if node, ok := nodeIdentity[e.Type]; ok {
		switch {
		case p.Kind != "role":
			return e, exception.InvalidParameter(
				cluster, "The specified principalArn is invalid: access entries of type %s must have the ARN of an IAM role",
				e.Type,
			)
		case len(in.KubernetesGroups) > 0:
			return e, exception.InvalidParameter(
				cluster, "kubernetesGroups can't be specified for access entries of type %s", e.Type,
			)
		case aws.ToString(in.Username) != "" && *in.Username != node.username:
			return e, exception.InvalidParameter(
				cluster, "username can't be specified for access entries of type %s", e.Type,
			)
		}
		e.Username, e.Groups = node.username, node.groups
		return e, nil
	}
	var err error
	if e.Groups, err = checkGroups(cluster, in.KubernetesGroups); err != nil {
		return e, err
	}
	e.Username = defaultUsername(p)
	if u := aws.ToString(in.Username); u != "" {
		if err := checkUsername(cluster, p, u); err != nil {
			return e, err
		}
		e.Username = u
	}
	return e, nil
}

// checkGroups checks Kubernetes groups and removes repetitions. A group is a plain name: only usernames are templates.
func checkGroups(cluster string, groups []string) ([]string, error) {
	var out []string
	seen := make(map[string]bool, len(groups))
	for _, g := range groups {
		if prefix, reserved := accesspolicy.ReservedPrefix(g); reserved {
			return nil, exception.InvalidParameter(
				cluster, "The kubernetes group name %s is invalid, it cannot start with %s", g, prefix,
			)
		}
		if g == "" {
			return nil, exception.InvalidParameter(cluster, "A kubernetes group name is invalid, it cannot be empty")
		}
		if strings.Contains(g, "{{") {
			return nil, exception.InvalidParameter(
				cluster, "The kubernetes group name %s is invalid, only a username can contain a template", g,
			)
		}
		if !seen[g] {
			seen[g] = true
			out = append(out, g)
		}
	}
	return out, nil
}

// checkUsername checks a Kubernetes username that a user chose for a STANDARD entry.
// https://docs.aws.amazon.com/eks/latest/userguide/set-custom-username.html
func checkUsername(cluster string, p principal.Principal, username string) error {
	if username == defaultUsername(p) {
		return nil
	}
	if prefix, reserved := accesspolicy.ReservedPrefix(username); reserved {
		return exception.InvalidParameter(cluster, "The username must not begin with %s", prefix)
	}
	for _, template := range []string{sessionName, sessionNameRaw} {
		before, _, found := strings.Cut(username, template)
		if !found {
			continue
		}
		if p.Kind != "role" {
			return exception.InvalidParameter(
				cluster, "The username must not contain %s, which only a role has", template,
			)
		}
		if !strings.Contains(before, ":") {
			return exception.InvalidParameter(cluster, "The username must contain a colon before %s", template)
		}
	}
	return nil
}

// DescribeAccessEntry describes the access entry of a principal.
func (s *Service) DescribeAccessEntry(
	ctx context.Context, in *eks.DescribeAccessEntryInput,
) (*eks.DescribeAccessEntryOutput, error) {
	c, err := s.clusterWithEntries(ctx, aws.ToString(in.ClusterName))
	if err != nil {
		return nil, err
	}
	e, err := s.entry(ctx, c.Value, aws.ToString(in.PrincipalArn))
	if err != nil {
		return nil, err
	}
	return &eks.DescribeAccessEntryOutput{AccessEntry: describeEntry(c.Value, e.Value)}, nil
}

// ListAccessEntries lists the principals that have an access entry, or those that an access policy is associated with.
func (s *Service) ListAccessEntries(
	ctx context.Context, in *eks.ListAccessEntriesInput,
) (*eks.ListAccessEntriesOutput, error) {
	c, err := s.clusterWithEntries(ctx, aws.ToString(in.ClusterName))
	if err != nil {
		return nil, err
	}
	rows, err := s.EntriesOf(ctx, c.Value)
	if err != nil {
		return nil, err
	}
	policy := aws.ToString(in.AssociatedPolicyArn)
	arns := []string{}
	for _, r := range rows {
		if policy == "" ||
			slices.ContainsFunc(
				r.Value.Policies, func(a record.AccessPolicyAssociation) bool { return a.PolicyARN == policy },
			) {
			arns = append(arns, r.Value.PrincipalARN)
		}
	}
	slices.Sort(arns)
	page, next, err := resource.PageNames(ctx, arns, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	return &eks.ListAccessEntriesOutput{AccessEntries: page, NextToken: next}, nil
}

// changeEntry calls edit with the access entry of a principal and writes the result, guarded by the cluster's record.
func (s *Service) changeEntry(
	ctx context.Context, cluster, principalARN string, edit func(*record.AccessEntry) error,
) (record.Cluster, record.AccessEntry, error) {
	for {
		c, err := s.changeableCluster(ctx, cluster)
		if err != nil {
			return c.Value, record.AccessEntry{}, err
		}
		e, err := s.entry(ctx, c.Value, principalARN)
		if err != nil {
			return c.Value, e.Value, err
		}
		if p, _ := principal.Parse(principalARN); p.ServiceLinked() {
			return c.Value, e.Value, exception.InvalidParameter(
				cluster,
				"The caller is not allowed to modify access entries with a principalArn value of a Service Linked Role",
			)
		}
		if err := edit(&e.Value); err != nil {
			return c.Value, e.Value, err
		}
		err = s.Store.Txn(ctx, s.Clusters.CheckOp(c), s.AccessEntries.UpdateOp(e))
		if resource.LostRace(err) {
			continue
		}
		return c.Value, e.Value, err
	}
}

// UpdateAccessEntry changes the user name or the groups of a STANDARD entry. Groups are replaced as a whole.
func (s *Service) UpdateAccessEntry(
	ctx context.Context, in *eks.UpdateAccessEntryInput,
) (*eks.UpdateAccessEntryOutput, error) {
	name := aws.ToString(in.ClusterName)
	c, e, err := s.changeEntry(ctx, name, aws.ToString(in.PrincipalArn), func(e *record.AccessEntry) error {
		if e.Type != standard {
			return onlyStandard(name)
		}
		p, _ := principal.Parse(e.PrincipalARN)
		if in.KubernetesGroups != nil {
			groups, err := checkGroups(name, in.KubernetesGroups)
			if err != nil {
				return err
			}
			e.Groups = groups
		}
		if u := aws.ToString(in.Username); u != "" {
			if err := checkUsername(name, p, u); err != nil {
				return err
			}
			e.Username = u
		}
		e.ModifiedAt = s.Timestamp()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &eks.UpdateAccessEntryOutput{AccessEntry: describeEntry(c, e)}, nil
}

func onlyStandard(cluster string) error {
	return exception.InvalidParameter(
		cluster, `This operation can only be performed on Access Entries with a type of "STANDARD".`,
	)
}

// DeleteAccessEntry takes away what let a principal into a cluster.
func (s *Service) DeleteAccessEntry(
	ctx context.Context, in *eks.DeleteAccessEntryInput,
) (*eks.DeleteAccessEntryOutput, error) {
	for {
		c, err := s.changeableCluster(ctx, aws.ToString(in.ClusterName))
		if err != nil {
			return nil, err
		}
		e, err := s.entry(ctx, c.Value, aws.ToString(in.PrincipalArn))
		if err != nil {
			return nil, err
		}
		if err := s.AccessEntries.Delete(ctx, e); resource.LostRace(err) {
			continue
		} else if err != nil {
			return nil, err
		}
		return &eks.DeleteAccessEntryOutput{}, nil
	}
}

func describeEntry(c record.Cluster, e record.AccessEntry) *types.AccessEntry {
	tags := e.Tags
	if tags == nil {
		tags = map[string]string{}
	}
	return &types.AccessEntry{
		AccessEntryArn:   new(resource.EntryARN(resource.Scope{Account: c.Account, Region: c.Region}, e, c.Name)),
		ClusterName:      new(c.Name),
		CreatedAt:        new(e.CreatedAt),
		ModifiedAt:       new(e.ModifiedAt),
		KubernetesGroups: resource.OrEmpty(e.Groups),
		PrincipalArn:     new(e.PrincipalARN),
		Tags:             tags,
		Type:             new(e.Type),
		Username:         new(e.Username),
	}
}

// onEntry returns an access entry as the target. The ARN of one that does not exist ends in a "*" for its ID.
func (s *Service) onEntry(
	ctx context.Context, action string, cluster, principalARN *string, edits ...func(resource.Conditions),
) ([]wire.Target, error) {
	at, name := resource.ScopeOf(ctx), aws.ToString(cluster)
	e := record.AccessEntry{PrincipalARN: aws.ToString(principalARN), ID: "*"}
	set := resource.Conditions{}
	set.Text("eks:clusterName", name)
	set.Text("eks:principalArn", e.PrincipalARN)
	row, err := s.AccessEntries.Get(ctx, record.AccessEntryKey(at.Account, at.Region, name, e.PrincipalARN))
	switch {
	case err == nil:
		e = row.Value
		set.ResourceTags(e.Tags)
		set.Text("eks:accessEntryType", e.Type)
		set.Text("eks:username", e.Username)
		set.List("eks:kubernetesGroups", e.Groups)
	case !errors.Is(err, store.ErrNotFound):
		return nil, err
	}
	return resource.TargetWith(
		wire.Target{Action: action, Resource: resource.EntryARN(at, e, name), Conditions: set}, edits,
	), nil
}

func orStandard(entryType *string) string {
	if aws.ToString(entryType) == "" {
		return standard
	}
	return *entryType
}
