package nodegroup

import (
	"context"
	"errors"
	"fmt"
	"slices"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	kubewatch "k8s.io/apimachinery/pkg/watch"

	"github.com/coracle-eks/coracle/internal/kube/client"
)

const (
	authNamespace = "kube-system"
	authName      = "aws-auth"
	mapRoles      = "mapRoles"

	throughMap   = "aws-auth" // in NodegroupState.Mapped
	throughEntry = "access-entry"
)

// authRole returns the role as aws-auth knows it: the authenticator compares roles without their paths.
func (g *group) authRole() string {
	return "arn:aws:iam::" + g.row.Account + ":role/" + g.roleName()
}

// usesMap and usesEntries say how roles are let into the cluster.
func (g *group) usesMap() bool {
	return g.cluster.AuthenticationMode != ekstypes.AuthenticationModeApi
}

func (g *group) usesEntries() bool {
	return g.cluster.AuthenticationMode == ekstypes.AuthenticationModeApi ||
		g.cluster.AuthenticationMode == ekstypes.AuthenticationModeApiAndConfigMap
}

// grantAccess lets the node role into the cluster.
// https://docs.aws.amazon.com/eks/latest/userguide/auth-configmap.html
func (g *group) grantAccess(ctx context.Context) error {
	if g.usesEntries() {
		if err := g.ensureAccessEntry(ctx); err != nil {
			return err
		}
	}
	if !g.usesMap() || g.kube == nil {
		return nil
	}
	has, err := hasRole(g.server.mapRoles(), g.authRole())
	if err != nil {
		return g.malformed(err)
	}
	if !has {
		if err := g.editMapRoles(ctx, addRole); err != nil {
			return err
		}
		crashMapped.Here()
	}
	g.recordAccess(throughMap)
	return nil
}

// recordAccess records how the role was granted access.
func (g *group) recordAccess(how string) {
	if !slices.Contains(g.state.Mapped, how) {
		g.state.Mapped = append(g.state.Mapped, how)
		slices.Sort(g.state.Mapped)
	}
}

// malformed returns what is wrong with aws-auth; nothing in it is touched.
func (g *group) malformed(err error) error {
	return &problem{ekstypes.Issue{Code: ekstypes.NodegroupIssueCodeAccessDenied, Message: ptr(err.Error()),
		ResourceIds: []string{authNamespace + "/" + authName}}}
}

// attempts is the number of immediate retries of an edit of aws-auth when it conflicts with another.
const attempts = 10

// editMapRoles changes mapRoles of aws-auth, and nothing else in it.
func (g *group) editMapRoles(ctx context.Context, edit func(text, role string) (string, error)) error {
	maps := g.kube.CoreV1().ConfigMaps(authNamespace)
	var err error
	for range attempts {
		var m *corev1.ConfigMap
		m, err = maps.Get(ctx, authName, metav1.GetOptions{})
		absent := apierrors.IsNotFound(err)
		if absent {
			m, err = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: authNamespace, Name: authName}}, nil
		}
		if err != nil {
			return fmt.Errorf("read aws-auth: %w", err)
		}
		text, wrong := edit(m.Data[mapRoles], g.authRole())
		if wrong != nil {
			return g.malformed(wrong)
		}
		if text == m.Data[mapRoles] {
			return nil
		}
		if m.Data == nil {
			m.Data = map[string]string{}
		}
		m.Data[mapRoles] = text
		if absent {
			_, err = maps.Create(ctx, m, metav1.CreateOptions{FieldManager: agent})
		} else {
			_, err = maps.Update(ctx, m, metav1.UpdateOptions{FieldManager: agent})
		}
		if err == nil {
			return nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
			break
		}
	}
	return fmt.Errorf("write aws-auth: %w", err)
}

// revokeAccess takes the role's mapping away, when this was the last of the cluster's node groups with it.
// https://docs.aws.amazon.com/eks/latest/userguide/delete-managed-node-group.html
func (g *group) revokeAccess(ctx context.Context) error {
	// Of several that are deleted at once, the one that sees the others without nodes does it.
	g.state.AutoScalingGroup = ""
	if err := g.saveState(ctx); err != nil {
		return err
	}
	rows, err := g.c.groups.List(ctx, g.siblings())
	if err != nil {
		return err
	}
	for _, other := range rows {
		if other.Key == g.row.Key() || other.Value.NodeRoleARN != g.row.NodeRoleARN {
			continue
		}
		state, err := g.c.states.Get(ctx, other.Key)
		if ignoreNotFound(err) != nil {
			return err
		}
		if !other.Value.Deleting || state.Value.NodegroupID == other.Value.ID && state.Value.AutoScalingGroup != "" {
			return nil
		}
	}
	if slices.Contains(g.state.Mapped, throughEntry) {
		if err := g.removeAccessEntry(ctx); err != nil {
			return err
		}
	}
	if !slices.Contains(g.state.Mapped, throughMap) {
		return nil
	}
	if g.kube == nil {
		return errUnreachable
	}
	err = g.editMapRoles(ctx, removeRole)
	var p *problem
	if errors.As(err, &p) {
		return nil // malformed: there is nothing to take out
	}
	return err
}

// errUnreachable reports that something waits for the cluster's API server.
var errUnreachable = errors.New("the cluster's API server cannot be reached")

// maxAuth is the maximum size of mapRoles in bytes: that of a ConfigMap.
const maxAuth = 1 << 20

func checkAuth(text string) error {
	if len(text) > maxAuth {
		return fmt.Errorf("%s of aws-auth is larger than %d MiB, %w", mapRoles, maxAuth>>20, client.ErrTooLarge)
	}
	return nil
}

// followAuth mirrors the text of mapRoles until the API server goes away. It calls known once it has the text, and
// changed whenever the text changes.
func (s *server) followAuth(ctx context.Context, known, changed func()) error {
	only := fields.OneTermEqualSelector("metadata.name", authName).String()
	maps := s.kube.CoreV1().ConfigMaps(authNamespace)
	list, err := maps.List(ctx, metav1.ListOptions{FieldSelector: only})
	if err != nil {
		return err
	}
	text := ""
	for _, m := range list.Items {
		text = m.Data[mapRoles]
	}
	if err := checkAuth(text); err != nil {
		return err
	}
	s.auth.Store(&text)
	known()
	return client.Watch(ctx, "aws-auth", list.ResourceVersion, maps.Watch, metav1.ListOptions{FieldSelector: only},
		func(what kubewatch.EventType, m *corev1.ConfigMap) error {
			text := m.Data[mapRoles]
			if what == kubewatch.Deleted {
				text = ""
			}
			if err := checkAuth(text); err != nil {
				return err
			}
			if s.mapRoles() != text {
				s.auth.Store(&text)
				changed()
			}
			return nil
		})
}

// mapRoles returns the text of mapRoles in aws-auth, as it was last heard of; empty without any.
func (s *server) mapRoles() string { return stringValue(s.auth.Load()) }
