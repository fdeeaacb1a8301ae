package eks

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/accesspolicy"
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

// nodeIdentity is who the holder of a node's role is in Kubernetes, by type of entry.
var nodeIdentity = map[string]struct {
	username string
	groups   []string
}{
	ec2Linux:      {"system:node:{{EC2PrivateDNSName}}", []string{"system:nodes"}},
	ec2Windows:    {"system:node:{{EC2PrivateDNSName}}", []string{"eks:kube-proxy-windows", "system:nodes"}},
	ec2Auto:       {"system:node:{{EC2PrivateDNSName}}", []string{"system:nodes"}},
	fargateLinux:  {"system:node:{{SessionName}}", []string{"system:bootstrappers", "system:node-proxier", "system:nodes"}},
	hybridLinux:   {"system:node:{{SessionName}}", []string{"system:nodes"}},
	hyperpodLinux: {"system:node:{{SessionName}}", []string{"system:nodes"}},
}

// Templates in usernames: the name of the role's session, with "@" as "-" or as it is.
const (
	sessionName    = "{{SessionName}}"
	sessionNameRaw = "{{SessionNameRaw}}"
)

// principal is an IAM identity, from its ARN.
type principal struct {
	arn, account string
	kind         string // role, user or root
	path         string // "/" or "/teams/tooling/"; of a role or user
	name         string // without the path; empty for root
}

var principalARN = regexp.MustCompile(`^arn:aws[a-z-]*:iam::(\d{12}):(?:(root)|(role|user)(/(?:[\x21-\x7e]+/)?)([\w+=,.@-]{1,64}))$`)

func parsePrincipal(arn string) (principal, bool) {
	m := principalARN.FindStringSubmatch(arn)
	if m == nil {
		return principal{}, false
	}
	if m[2] != "" {
		return principal{arn: arn, account: m[1], kind: m[2]}, true
	}
	return principal{arn: arn, account: m[1], kind: m[3], path: m[4], name: m[5]}, true
}

func (p principal) serviceLinked() bool {
	return p.kind == "role" && strings.HasPrefix(p.path, "/aws-service-role/")
}

// username is the Kubernetes user that EKS chooses for a STANDARD entry. A role's path is not part of it.
func (p principal) username() string {
	if p.kind == "role" {
		return "arn:" + strings.Split(p.arn, ":")[1] + ":sts::" + p.account + ":assumed-role/" + p.name + "/" + sessionName
	}
	return p.arn
}

// entryARN is the ARN of an access entry: access-entry/<cluster>/<role|user>/<account>/<name>/<uuid>.
func entryARN(at place, e record.AccessEntry, cluster string) string {
	p, _ := parsePrincipal(e.PrincipalARN)
	parts := []string{"arn:aws:eks:" + at.region + ":" + at.account + ":access-entry", cluster, p.kind, p.account}
	if p.name != "" {
		parts = append(parts, p.name)
	}
	return strings.Join(append(parts, e.ID), "/")
}

// creatorEntryOp lets the creator of a cluster in, as its administrator. It writes over what an earlier cluster of that name left.
func (s *Service) creatorEntryOp(c record.Cluster) store.Op {
	p, _ := parsePrincipal(c.CreatorARN)
	now := s.timestamp()
	return s.accessEntries.PutOp(record.AccessEntryKey(c.Account, c.Region, c.Name, c.CreatorARN), record.AccessEntry{
		ClusterID:    c.ID,
		PrincipalARN: c.CreatorARN,
		PrincipalID:  c.CreatorID,
		ID:           newUUID(),
		Type:         standard,
		Username:     p.username(),
		CreatedAt:    now,
		ModifiedAt:   now,
		Policies: []record.AccessPolicyAssociation{{
			PolicyARN: accesspolicy.ClusterAdmin, Scope: types.AccessScopeTypeCluster, AssociatedAt: now, ModifiedAt: now,
		}},
	})
}

// clusterWithEntries is a cluster that access entries have a meaning for.
func (s *Service) clusterWithEntries(ctx context.Context, name string) (store.Row[record.Cluster], error) {
	row, err := s.cluster(ctx, name)
	if err != nil {
		return row, err
	}
	if row.Value.AuthenticationMode == types.AuthenticationModeConfigMap {
		return row, invalidRequest(name, "The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP] to perform this operation.")
	}
	return row, nil
}

// changeableCluster is clusterWithEntries for an operation that writes.
func (s *Service) changeableCluster(ctx context.Context, name string) (store.Row[record.Cluster], error) {
	row, err := s.clusterWithEntries(ctx, name)
	if err == nil && row.Value.Deleting {
		return row, invalidRequest(name, "Cluster %s is being deleted: its access entries can't be changed", name)
	}
	return row, err
}

// entriesOf is every access entry of a cluster, by principal.
func (s *Service) entriesOf(ctx context.Context, c record.Cluster) ([]store.Row[record.AccessEntry], error) {
	return rowsOf(ctx, s.accessEntries, c, func(e record.AccessEntry) string { return e.ClusterID })
}

// entry is the access entry of a principal.
func (s *Service) entry(ctx context.Context, c record.Cluster, principalARN string) (store.Row[record.AccessEntry], error) {
	row, err := s.accessEntries.Copy(ctx, record.AccessEntryKey(c.Account, c.Region, c.Name, principalARN))
	if errors.Is(err, store.ErrNotFound) || err == nil && row.Value.ClusterID != c.ID {
		return row, notFound(c.Name, "The specified principalArn could not be found. You can view your available access entries with 'list-access-entries'.")
	}
	return row, err
}

// accessEntryHandlers are the operations of this file, each with what its caller needs permission for.
func (s *Service) accessEntryHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateAccessEntry, func(
			ctx context.Context, action string, in *eks.CreateAccessEntryInput,
		) ([]wire.Target, error) {
			return s.onCluster(ctx, action, in.ClusterName, func(c conditions) {
				c.requestTags(in.Tags)
				c.text("eks:clusterName", aws.ToString(in.ClusterName))
				c.text("eks:principalArn", aws.ToString(in.PrincipalArn))
				c.text("eks:username", aws.ToString(in.Username))
				c.text("eks:accessEntryType", orStandard(in.Type))
				c.list("eks:kubernetesGroups", in.KubernetesGroups)
			})
		}),
		wire.Handle(s.DescribeAccessEntry, func(
			ctx context.Context, action string, in *eks.DescribeAccessEntryInput,
		) ([]wire.Target, error) {
			return s.onEntry(ctx, action, in.ClusterName, in.PrincipalArn)
		}),
		wire.Handle(s.ListAccessEntries, func(
			ctx context.Context, action string, in *eks.ListAccessEntriesInput,
		) ([]wire.Target, error) {
			return s.onCluster(ctx, action, in.ClusterName)
		}),
		wire.Handle(s.UpdateAccessEntry, func(
			ctx context.Context, action string, in *eks.UpdateAccessEntryInput,
		) ([]wire.Target, error) {
			return s.onEntry(ctx, action, in.ClusterName, in.PrincipalArn, func(c conditions) {
				c.text("eks:username", aws.ToString(in.Username))
				c.list("eks:kubernetesGroups", in.KubernetesGroups)
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
func (s *Service) CreateAccessEntry(ctx context.Context, in *eks.CreateAccessEntryInput) (*eks.CreateAccessEntryOutput, error) {
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
		key := record.AccessEntryKey(c.Account, c.Region, c.Name, p.arn)
		old, err := s.accessEntries.Get(ctx, key)
		there := err == nil
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		if there && old.Value.ClusterID == c.ID {
			same, err := wire.Repeated(ctx, in.ClientRequestToken, hash, old.Value.ClientRequestToken, old.Value.RequestHash)
			if err != nil {
				return nil, err
			}
			if !same {
				return nil, inUse(name, "The specified access entry resource is already in use on this cluster.")
			}
			return &eks.CreateAccessEntryOutput{AccessEntry: describeEntry(c, old.Value)}, nil
		}
		e, err := s.newEntry(name, p, in)
		if err != nil {
			return nil, err
		}
		e.PrincipalID = id
		e.ClusterID, e.ClientRequestToken, e.RequestHash = c.ID, aws.ToString(in.ClientRequestToken), hash
		op := s.accessEntries.CreateOp(key, e)
		if there { // left by an earlier cluster of that name
			old.Value = e
			op = s.accessEntries.UpdateOp(old)
		}
		// The cluster must not be deleted, or its authentication mode change, in between.
		err = s.store.Txn(ctx, s.clusters.CheckOp(cluster), op)
		if lostRace(err) {
			continue
		} else if err != nil {
			return nil, err
		}
		return &eks.CreateAccessEntryOutput{AccessEntry: describeEntry(c, e)}, nil
	}
}

// lostRace says that a transaction found the rows changed; it is worth another look.
func lostRace(err error) bool {
	return errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrNotFound)
}

// checkPrincipal is the principal of an entry to be made, and its unique id if it is of this account.
func (s *Service) checkPrincipal(ctx context.Context, cluster, arn string) (principal, string, error) {
	p, ok := parsePrincipal(arn)
	if !ok {
		return p, "", invalidParameter(cluster, "The specified principalArn is invalid: %s is not the ARN of an IAM user or role.", arn)
	}
	if p.serviceLinked() {
		return p, "", invalidParameter(cluster, "The caller is not allowed to modify access entries with a principalArn value of a Service Linked Role")
	}
	// Other accounts may be beyond this machine: what is in them is taken on trust.
	if p.account != placeOf(ctx).account {
		return p, "", nil
	}
	_, id, exists, err := s.bornAt(ctx, p)
	if err == nil && !exists {
		err = invalidParameter(cluster, "The specified principalArn is invalid: invalid principal.")
	}
	return p, id, err
}

// newEntry is the entry that a request asks for, checked.
func (s *Service) newEntry(cluster string, p principal, in *eks.CreateAccessEntryInput) (record.AccessEntry, error) {
	now := s.timestamp()
	e := record.AccessEntry{PrincipalARN: p.arn, ID: newUUID(), Type: aws.ToString(in.Type), Tags: in.Tags, CreatedAt: now, ModifiedAt: now}
	if e.Type == "" {
		e.Type = standard
	}
	if !slices.Contains(entryTypes, e.Type) {
		return e, invalidParameter(cluster, "The specified type %s is invalid. Valid types are: %s", e.Type, bracketed(entryTypes))
	}
	if fault := tagFault(in.Tags); fault != "" {
		return e, invalidParameter(cluster, "%s", fault)
	}
	if node, ok := nodeIdentity[e.Type]; ok {
		switch {
		case p.kind != "role":
			return e, invalidParameter(cluster, "The specified principalArn is invalid: access entries of type %s must have the ARN of an IAM role", e.Type)
		case len(in.KubernetesGroups) > 0:
			return e, invalidParameter(cluster, "kubernetesGroups can't be specified for access entries of type %s", e.Type)
		case aws.ToString(in.Username) != "" && *in.Username != node.username:
			return e, invalidParameter(cluster, "username can't be specified for access entries of type %s", e.Type)
		}
		e.Username, e.Groups = node.username, node.groups
		return e, nil
	}
	var err error
	if e.Groups, err = checkGroups(cluster, in.KubernetesGroups); err != nil {
		return e, err
	}
	e.Username = p.username()
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
	for _, g := range groups {
		if prefix, reserved := accesspolicy.ReservedPrefix(g); reserved {
			return nil, invalidParameter(cluster, "The kubernetes group name %s is invalid, it cannot start with %s", g, prefix)
		}
		if g == "" {
			return nil, invalidParameter(cluster, "A kubernetes group name is invalid, it cannot be empty")
		}
		if strings.Contains(g, "{{") {
			return nil, invalidParameter(cluster, "The kubernetes group name %s is invalid, only a username can contain a template", g)
		}
		if !slices.Contains(out, g) {
			out = append(out, g)
		}
	}
	return out, nil
}

// checkUsername checks a Kubernetes username that a user chose for a STANDARD entry.
// https://docs.aws.amazon.com/eks/latest/userguide/set-custom-username.html
func checkUsername(cluster string, p principal, username string) error {
	if username == p.username() {
		return nil
	}
	if prefix, reserved := accesspolicy.ReservedPrefix(username); reserved {
		return invalidParameter(cluster, "The username must not begin with %s", prefix)
	}
	for _, template := range []string{sessionName, sessionNameRaw} {
		before, _, found := strings.Cut(username, template)
		if !found {
			continue
		}
		if p.kind != "role" {
			return invalidParameter(cluster, "The username must not contain %s, which only a role has", template)
		}
		if !strings.Contains(before, ":") {
			return invalidParameter(cluster, "The username must contain a colon before %s", template)
		}
	}
	return nil
}

// DescribeAccessEntry describes the access entry of a principal.
func (s *Service) DescribeAccessEntry(ctx context.Context, in *eks.DescribeAccessEntryInput) (*eks.DescribeAccessEntryOutput, error) {
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
func (s *Service) ListAccessEntries(ctx context.Context, in *eks.ListAccessEntriesInput) (*eks.ListAccessEntriesOutput, error) {
	c, err := s.clusterWithEntries(ctx, aws.ToString(in.ClusterName))
	if err != nil {
		return nil, err
	}
	rows, err := s.entriesOf(ctx, c.Value)
	if err != nil {
		return nil, err
	}
	policy := aws.ToString(in.AssociatedPolicyArn)
	arns := []string{}
	for _, r := range rows {
		if policy == "" || slices.ContainsFunc(r.Value.Policies, func(a record.AccessPolicyAssociation) bool { return a.PolicyARN == policy }) {
			arns = append(arns, r.Value.PrincipalARN)
		}
	}
	slices.Sort(arns)
	page, next, err := wire.Page(ctx, arns, in.MaxResults, in.NextToken, itself)
	if err != nil {
		return nil, err
	}
	return &eks.ListAccessEntriesOutput{AccessEntries: page, NextToken: next}, nil
}

// changeEntry has edit change the access entry of a principal, guarded by the cluster's row.
func (s *Service) changeEntry(ctx context.Context, cluster, principalARN string, edit func(*record.AccessEntry) error) (record.Cluster, record.AccessEntry, error) {
	for {
		c, err := s.changeableCluster(ctx, cluster)
		if err != nil {
			return c.Value, record.AccessEntry{}, err
		}
		e, err := s.entry(ctx, c.Value, principalARN)
		if err != nil {
			return c.Value, e.Value, err
		}
		if p, _ := parsePrincipal(principalARN); p.serviceLinked() {
			return c.Value, e.Value, invalidParameter(cluster, "The caller is not allowed to modify access entries with a principalArn value of a Service Linked Role")
		}
		if err := edit(&e.Value); err != nil {
			return c.Value, e.Value, err
		}
		err = s.store.Txn(ctx, s.clusters.CheckOp(c), s.accessEntries.UpdateOp(e))
		if lostRace(err) {
			continue
		}
		return c.Value, e.Value, err
	}
}

// UpdateAccessEntry changes the user name or the groups of a STANDARD entry. Groups are replaced as a whole.
func (s *Service) UpdateAccessEntry(ctx context.Context, in *eks.UpdateAccessEntryInput) (*eks.UpdateAccessEntryOutput, error) {
	name := aws.ToString(in.ClusterName)
	c, e, err := s.changeEntry(ctx, name, aws.ToString(in.PrincipalArn), func(e *record.AccessEntry) error {
		if e.Type != standard {
			return onlyStandard(name)
		}
		p, _ := parsePrincipal(e.PrincipalARN)
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
		e.ModifiedAt = s.timestamp()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &eks.UpdateAccessEntryOutput{AccessEntry: describeEntry(c, e)}, nil
}

func onlyStandard(cluster string) error {
	return invalidParameter(cluster, `This operation can only be performed on Access Entries with a type of "STANDARD".`)
}

// DeleteAccessEntry takes away what let a principal into a cluster.
func (s *Service) DeleteAccessEntry(ctx context.Context, in *eks.DeleteAccessEntryInput) (*eks.DeleteAccessEntryOutput, error) {
	for {
		c, err := s.changeableCluster(ctx, aws.ToString(in.ClusterName))
		if err != nil {
			return nil, err
		}
		e, err := s.entry(ctx, c.Value, aws.ToString(in.PrincipalArn))
		if err != nil {
			return nil, err
		}
		if err := s.accessEntries.Delete(ctx, e); lostRace(err) {
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
		AccessEntryArn:   new(entryARN(place{c.Account, c.Region}, e, c.Name)),
		ClusterName:      new(c.Name),
		CreatedAt:        new(e.CreatedAt),
		ModifiedAt:       new(e.ModifiedAt),
		KubernetesGroups: orEmpty(e.Groups),
		PrincipalArn:     new(e.PrincipalARN),
		Tags:             tags,
		Type:             new(e.Type),
		Username:         new(e.Username),
	}
}
