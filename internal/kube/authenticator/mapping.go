package authenticator

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/accesspolicy"
	"github.com/coracle-eks/coracle/internal/kube/servicerole"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// errNotMapped reports that neither an access entry nor aws-auth knows an identity.
var errNotMapped = errors.New("identity is not mapped")

// resolve returns the Kubernetes user of an identity, templates filled in. Access entries have precedence over
// aws-auth: where both name a principal, aws-auth is ignored. A cluster without access entries has a mapping of its
// creator, which nobody sees or changes.
// https://docs.aws.amazon.com/eks/latest/userguide/setting-up-access-entries.html
// https://docs.aws.amazon.com/eks/latest/userguide/auth-configmap.html
//
// EKS's own roles have their users in every cluster, in sessions of its own: whoever else may assume them is not EKS.
func (a *Authenticator) resolve(ctx context.Context, c record.Cluster, id Identity) (mapping, error) {
	if user, ok := servicerole.UserOf(id.CanonicalARN, id.service); ok && id.kind == assumedRole {
		return mapping{Username: user}, nil
	}
	if usesEntries(c) {
		entry, err := a.entryOf(ctx, c, id)
		if err == nil {
			return a.resolveEntry(ctx, c, entry, id)
		}
		if !errors.Is(err, errNotMapped) {
			return mapping{}, err
		}
	}
	if !usesEntries(c) {
		creator, err := a.isCreator(ctx, c, id)
		if err != nil {
			return mapping{}, err
		}
		if creator {
			return mapping{Username: creatorUsername, Groups: []string{masters}}, nil
		}
	}
	if usesConfigMap(c) {
		auth, err := a.awsAuth(ctx, c.ID)
		if err != nil {
			return mapping{}, err
		}
		if found, ok := auth.findMapping(id); ok {
			return a.renderMapping(ctx, c, found, id)
		}
	}
	return mapping{}, errNotMapped
}

func usesEntries(c record.Cluster) bool {
	return c.AuthenticationMode == ekstypes.AuthenticationModeApi ||
		c.AuthenticationMode == ekstypes.AuthenticationModeApiAndConfigMap
}

func usesConfigMap(c record.Cluster) bool {
	return c.AuthenticationMode == ekstypes.AuthenticationModeConfigMap ||
		c.AuthenticationMode == ekstypes.AuthenticationModeApiAndConfigMap
}

// creatorUsername is the Kubernetes user of the creator of a cluster without access entries.
const creatorUsername = "kubernetes-admin"

// isCreator reports whether an identity is the principal that created the cluster, and not another of that name.
func (a *Authenticator) isCreator(ctx context.Context, c record.Cluster, id Identity) (bool, error) {
	if !c.BootstrapCreatorAdmin || id.AccountID != c.Account {
		return false, nil
	}
	arn, since, err := a.principal(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return arn == c.CreatorARN && (c.CreatorID == "" || c.CreatorID == id.PrincipalID) &&
		!since.Truncate(time.Millisecond).After(c.CreatedAt), err
}

// entryOf returns the access entry of an identity, or errNotMapped. EKS compares principals, not the text of ARNs: an
// entry made for a role with a path holds for the role's sessions, whose ARNs have no path, and an entry does not hold
// for a principal that was created after it under the name of an older one, or was given that name.
func (a *Authenticator) entryOf(ctx context.Context, c record.Cluster, id Identity) (record.AccessEntry, error) {
	arn, since, err := a.principal(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return record.AccessEntry{}, errNotMapped
	}
	if err != nil {
		return record.AccessEntry{}, err
	}
	candidates := []string{arn}
	if short := withoutPath(arn); short != arn {
		candidates = append(candidates, short)
	}
	for _, arn := range candidates {
		row, err := a.entries.Get(ctx, record.AccessEntryKey(c.Account, c.Region, c.Name, arn))
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return record.AccessEntry{}, err
		}
		// Entries for principals of other accounts may be made before the principals are.
		entry := row.Value
		stranger := id.AccountID == c.Account && since.Truncate(time.Millisecond).After(entry.CreatedAt) ||
			entry.PrincipalID != "" && entry.PrincipalID != id.PrincipalID
		if entry.ClusterID == c.ID && !stranger {
			return entry, nil
		}
	}
	return record.AccessEntry{}, errNotMapped
}

// principal returns the IAM principal that an identity is, or is a session of: its ARN with its path and its creation
// time. It returns store.ErrNotFound when the principal no longer exists.
func (a *Authenticator) principal(ctx context.Context, id Identity) (arn string, since time.Time, err error) {
	_, name, _ := strings.Cut(id.CanonicalARN, "/")
	name = name[strings.LastIndexByte(name, '/')+1:]
	switch id.kind {
	case root:
		return id.CanonicalARN, time.Time{}, nil
	case assumedRole:
		row, err := a.roles.Get(ctx, record.RoleKey(id.AccountID, name))
		if err == nil && row.Value.ID != id.PrincipalID {
			err = store.ErrNotFound // another one of that name
		}
		return row.Value.ARN(), row.Value.CreatedAt, err
	case user:
		row, err := a.users.Get(ctx, record.UserKey(id.AccountID, name))
		if err == nil && row.Value.ID != id.PrincipalID {
			err = store.ErrNotFound
		}
		return row.Value.ARN(), row.Value.CreatedAt, err
	}
	return "", time.Time{}, store.ErrNotFound // a federated user
}

// nodeEntry has the user name and groups of an access entry of a node type, whatever groups its record has.
type nodeEntry struct {
	username string
	groups   []string
}

var (
	nodeGroups  = []string{"system:bootstrappers", "system:nodes"}
	nodeEntries = map[string]nodeEntry{
		"EC2":       {"system:node:{{EC2PrivateDNSName}}", nodeGroups},
		"EC2_LINUX": {"system:node:{{EC2PrivateDNSName}}", nodeGroups},
		"EC2_WINDOWS": {"system:node:{{EC2PrivateDNSName}}", append(slices.Clone(nodeGroups),
			"eks:kube-proxy-windows")},
		"FARGATE_LINUX":  {"system:node:{{SessionName}}", append(slices.Clone(nodeGroups), "system:node-proxier")},
		"HYBRID_LINUX":   {"system:node:{{SessionName}}", nodeGroups},
		"HYPERPOD_LINUX": {"system:node:{{SessionName}}", nodeGroups},
	}
)

// masters is the group whose members pass every authorizer. An access entry never gives it; aws-auth may, and the
// creator of a cluster without access entries is in it.
const masters = "system:masters"

// resolveEntry returns the Kubernetes user of an access entry. Only the username is a template. The reserved prefixes
// are checked again on what Kubernetes will see, whatever the API accepted when the entry was made.
func (a *Authenticator) resolveEntry(ctx context.Context, c record.Cluster, entry record.AccessEntry,
	id Identity) (mapping, error) {
	refuse := func(format string, args ...any) (mapping, error) {
		return mapping{}, fmt.Errorf("access entry %s: "+format, append([]any{entry.PrincipalARN}, args...)...)
	}
	username, groups := entry.Username, entry.Groups
	node, isNode := nodeEntries[entry.Type]
	if isNode {
		groups = node.groups
		if username == "" {
			username = node.username
		}
	} else if username == "" {
		username = defaultUsername(entry.PrincipalARN)
	}
	got := mapping{Groups: slices.Clone(groups)}
	var err error
	if got.Username, err = a.renderOne(ctx, c, username, id); err != nil {
		return refuse("error rendering username template %q: %w", username, err)
	}
	if got.Username == "" {
		return refuse("the username %q is empty for this session", username)
	}
	if !isNode {
		if prefix, reserved := accesspolicy.ReservedPrefix(got.Username); reserved {
			return refuse("invalid username %q: username must not begin with %s", got.Username, prefix)
		}
		for _, group := range got.Groups {
			if prefix, reserved := accesspolicy.ReservedPrefix(group); reserved {
				return refuse("invalid group %q: group must not begin with %s", group, prefix)
			}
		}
	}
	if slices.Contains(got.Groups, masters) {
		return refuse("an access entry cannot give the group %s", masters)
	}
	if entry.Type == "FARGATE_LINUX" || isFargateNode(got.Username) {
		if err := a.checkFargateNode(ctx, c, got.Username, id); err != nil {
			return refuse("%w", err)
		}
	}
	return got, nil
}

// defaultUsername returns the user name of a STANDARD entry that was created without one.
func defaultUsername(principalARN string) string {
	short := withoutPath(principalARN)
	prefix, role, ok := cutRole(short)
	if !ok {
		return principalARN
	}
	return strings.Replace(prefix, ":iam:", ":sts:", 1) + ":assumed-role/" + role + "/{{SessionName}}"
}

var instanceID = regexp.MustCompile(`^i-[0-9a-f]{8,17}$`)

// renderMapping fills in the templates of an entry of aws-auth, in its username and its groups.
func (a *Authenticator) renderMapping(ctx context.Context, c record.Cluster, m mapping, id Identity) (mapping, error) {
	username, err := a.renderOne(ctx, c, m.Username, id)
	if err != nil {
		return mapping{}, fmt.Errorf("error rendering username template %q: %w", m.Username, err)
	}
	if isFargateNode(username) {
		if err := a.checkFargateNode(ctx, c, username, id); err != nil {
			return mapping{}, fmt.Errorf("aws-auth: %w", err)
		}
	}
	groups := make([]string, 0, len(m.Groups))
	for _, template := range m.Groups {
		group, err := a.renderOne(ctx, c, template, id)
		if err != nil {
			return mapping{}, fmt.Errorf("error rendering group template %q: %w", template, err)
		}
		groups = append(groups, group)
	}
	return mapping{Username: username, Groups: groups}, nil
}

func (a *Authenticator) renderOne(ctx context.Context, c record.Cluster, template string, id Identity) (string, error) {
	if !strings.Contains(template, "{{") {
		return template, nil
	}
	replace := []string{
		"{{AccountID}}", id.AccountID,
		"{{SessionName}}", strings.ReplaceAll(id.SessionName, "@", "-"),
		"{{SessionNameRaw}}", id.SessionName,
		"{{AccessKeyID}}", id.AccessKeyID,
	}
	if strings.Contains(template, "{{EC2PrivateDNSName}}") {
		// The session of an instance's role is named after the instance.
		if !instanceID.MatchString(id.SessionName) {
			return "", fmt.Errorf("SessionName %q did not contain an instance id", id.SessionName)
		}
		name, err := a.privateDNSName(ctx, c, id.SessionName)
		if err != nil {
			return "", err
		}
		replace = append(replace, "{{EC2PrivateDNSName}}", name)
	}
	return strings.NewReplacer(replace...).Replace(template), nil
}
