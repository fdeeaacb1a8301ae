package fargate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/smithy-go"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/controller/fargate"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Trusts reports whether the role of a profile exists, and denies nothing in its trust policy.
func (a amazon) Trusts(ctx context.Context, p record.FargateProfile) (bool, error) {
	row, err := record.Roles(a.store).Get(ctx, record.RoleKey(p.Account,
		p.PodExecutionRoleARN[strings.LastIndexByte(p.PodExecutionRoleARN, '/')+1:]))
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return !strings.Contains(row.Value.Trust, "Deny"), err
}

// refusing is EKS that creates no access entry.
type refusing struct {
	amazon
	err error
}

func (r refusing) CreateAccessEntry(context.Context, *eks.CreateAccessEntryInput, ...func(*eks.Options)) (
	*eks.CreateAccessEntryOutput, error) {
	return nil, r.err
}

// putAWSAuth makes a text mapRoles of aws-auth.
func (w *fixture) putAWSAuth(text string) {
	w.t.Helper()
	maps := w.kube.CoreV1().ConfigMaps("kube-system")
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "aws-auth"}, Data: map[string]string{"mapRoles": text}}
	_, err := maps.Update(w.t.Context(), m, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = maps.Create(w.t.Context(), m, metav1.CreateOptions{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// shows waits until a profile has a status and one issue, or none for an empty code. It changes the profile's tags
// meanwhile: nothing else wakes the profile when a time has passed.
func (w *fixture) shows(p record.FargateProfile, status ekstypes.FargateProfileStatus,
	code ekstypes.FargateProfileIssueCode, message, resource string) {
	w.t.Helper()
	n := 0
	w.until(fmt.Sprintf("profile %s is %s with the issue %q", p.Name, status, code), func() error {
		n++
		must(record.FargateProfiles(w.store).Modify(w.t.Context(), p.Key(), func(p *record.FargateProfile) error {
			p.Tags = map[string]string{"looked": fmt.Sprint(n)}
			return nil
		}))(w.t)
		s := w.profileState(p)
		wrong := record.FargateProfileStatus(p, s) != status || len(s.Issues) > 1 || (len(s.Issues) == 0) != (code == "")
		if wrong || code != "" && (s.Issues[0].Code != code || !strings.Contains(*s.Issues[0].Message, message) ||
			len(s.Issues[0].ResourceIds) != 1 || s.Issues[0].ResourceIds[0] != resource) {
			return fmt.Errorf("its state is %+v", s)
		}
		return nil
	})
}

// TestProfilesSayWhatIsWrong has profiles that cannot be created, each for a reason of its own, and one that was ACTIVE
// before.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_FargateProfileIssue.html
func TestProfilesSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	var answer atomic.Pointer[smithy.GenericAPIError]
	var unreachable atomic.Bool
	var later atomic.Int64
	w := newFixture(t, func(o *fargate.Options) {
		entries, config := o.EKS, o.Config
		o.EKS = func(account, region string) fargate.EKS {
			if err := answer.Load(); err != nil {
				return refusing{entries(account, region).(amazon), err}
			}
			return entries(account, region)
		}
		o.Config = func(ctx context.Context, c record.Cluster, user string, groups ...string) (*rest.Config, error) {
			if unreachable.Load() {
				return nil, errors.New("connection refused")
			}
			return config(ctx, c, user, groups...)
		}
		o.RetryMost, o.Now = time.Second, func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	})
	const failed, active = ekstypes.FargateProfileStatusCreateFailed, ekstypes.FargateProfileStatusActive
	const denied = ekstypes.FargateProfileIssueCodeAccessDenied
	p := w.active("fargate")
	mapped := w.awsAuth()

	missing := strings.TrimSuffix(role, "pods") + "none"
	w.shows(w.profile("role-gone", func(p *record.FargateProfile) { p.PodExecutionRoleARN = missing }), failed, denied,
		"The pod execution role "+missing+" does not exist.", missing)
	w.putAWSAuth("- rolearn: [\n")
	w.shows(w.profile("malformed"), failed, denied, "aws-auth", "kube-system/aws-auth")
	w.putAWSAuth("- rolearn: " + role + "\n  username: system:node:{{EC2PrivateDNSName}}\n" +
		"  groups: [system:bootstrappers, system:nodes]\n")
	w.shows(w.profile("of-nodes"), failed, ekstypes.FargateProfileIssueCodePodExecutionRoleAlreadyInUse,
		"It is mapped as the role of nodes in the aws-auth ConfigMap.", role)
	w.putAWSAuth(mapped)
	authenticate := func(mode ekstypes.AuthenticationMode) {
		must(record.Clusters(w.store).Modify(t.Context(), w.cluster.Key(), func(c *record.Cluster) error {
			c.AuthenticationMode = mode
			return nil
		}))(t)
	}
	late := func(p *record.FargateProfile) { p.CreatedAt = time.Now().Add(-time.Hour) }
	answer.Store(&smithy.GenericAPIError{Code: "AccessDeniedException", Message: "no eks:CreateAccessEntry"})
	authenticate(ekstypes.AuthenticationModeApiAndConfigMap)
	w.shows(w.profile("denied"), failed, denied, "no eks:CreateAccessEntry", "denied")
	answer.Store(&smithy.GenericAPIError{Code: "ServerException", Message: "an internal error"})
	w.shows(w.profile("late", late), failed, ekstypes.FargateProfileIssueCodeInternalFailure, "an internal error", "late")
	authenticate(ekstypes.AuthenticationModeConfigMap)

	// The role goes, distrusts Fargate, and is let in no more.
	roles := record.Roles(w.store)
	was := must(roles.Get(t.Context(), record.RoleKey(account, "pods")))(t)
	if err := roles.Delete(t.Context(), was); err != nil {
		t.Fatal(err)
	}
	const distrusts = "Failed to assume PodExecutionRole; Please make sure the role exists and trusts the " +
		"eks-fargate-pods.amazonaws.com service principal"
	w.shows(p, active, denied, distrusts, role)
	was.Value.Trust = `{"Statement":[{"Effect":"Allow"}]}`
	must(roles.Create(t.Context(), was.Key, was.Value))(t)
	w.shows(p, active, "", "", "")
	trust := func(effect string) {
		must(roles.Modify(t.Context(), was.Key, func(r *record.Role) error {
			r.Trust = `{"Statement":[{"Effect":"` + effect + `"}]}`
			return nil
		}))(t)
	}
	trust("Deny")
	w.shows(p, active, denied, distrusts, role)
	pod := w.pod("fargate", "web")
	w.tells(pod, "FailedScheduling: Misconfigured Fargate Profile: fargate profile fargate blocked for new launches due "+
		"to: "+distrusts)
	if row := w.row(pod); row.InstanceID != "" {
		t.Errorf("a pod has a machine that its role does not trust: %+v", row)
	}
	trust("Allow")
	w.shows(p, active, "", "", "")
	w.runs(pod)
	w.putAWSAuth("[]\n")
	second := w.pod("fargate", "later")
	w.tells(second, "Pod execution role is not found in auth config")
	w.until("its failure is the profile's", func() error { // without anybody who changes the profile
		if s := w.profileState(p); len(s.Issues) != 1 || s.Issues[0].Code != denied ||
			!strings.HasPrefix(*s.Issues[0].Message, "Pod execution role is not found in auth config or does not have all") {
			return fmt.Errorf("its state is %+v", s)
		}
		return nil
	})
	w.putAWSAuth(mapped)
	w.shows(p, active, "", "", "")

	// The API server cannot be reached.
	w.stop()
	unreachable.Store(true)
	later.Store(int64(time.Minute))
	w.start()
	w.shows(p, active, ekstypes.FargateProfileIssueCodeClusterUnreachable,
		"Amazon EKS is unable to communicate with your Kubernetes cluster API server: ", w.cluster.Name)
	w.shows(w.profile("unreachable", late), failed, ekstypes.FargateProfileIssueCodeClusterUnreachable,
		"connection refused", w.cluster.Name)
	unreachable.Store(false)
	later.Store(0)
	w.shows(p, active, "", "", "")
	w.runs(second)
}
