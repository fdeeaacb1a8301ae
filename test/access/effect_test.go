package access

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/kube/authenticator/authenticatortest"
	"github.com/coracle-eks/coracle/test/harness"
)

// TestChangesOfAccessTakeEffect holds a client with one token, as a controller does for a quarter
// of an hour, against every way in which access is given and taken away.
func TestChangesOfAccessTakeEffect(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	d := harness.Start(t)
	d.CreateCluster("effect", "1.35", d.ClusterRole(), d.Subnets())
	cluster := d.AwaitStatus("effect", ekstypes.ClusterStatusActive)
	ca, err := base64.StdEncoding.DecodeString(*cluster.CertificateAuthority.Data)
	if err != nil {
		t.Fatal(err)
	}
	client := func(config aws.Config) *kubernetes.Clientset {
		t.Helper()
		token, err := authenticatortest.Token(ctx, config, "effect")
		if err != nil {
			t.Fatal(err)
		}
		c, err := kubernetes.NewForConfig(&rest.Config{Host: *cluster.Endpoint, BearerToken: token, QPS: -1,
			TLSClientConfig: rest.TLSClientConfig{CAData: ca}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	admin := client(d.Config())

	users := iam.NewFromConfig(d.Config())
	if _, err := users.CreateUser(ctx, &iam.CreateUserInput{UserName: aws.String("dev"),
		Path: aws.String("/team/")}); err != nil {
		t.Fatal(err)
	}
	key, err := users.CreateAccessKey(ctx, &iam.CreateAccessKeyInput{UserName: aws.String("dev")})
	if err != nil {
		t.Fatal(err)
	}
	const arn = "arn:aws:iam::111122223333:user/team/dev"
	dev := client(d.ConfigFor(*key.AccessKey.AccessKeyId, *key.AccessKey.SecretAccessKey, ""))
	pods := func() error {
		_, err := dev.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		return err
	}
	nodes := func() error {
		_, err := dev.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		return err
	}
	allowed := func(err error) bool { return err == nil }
	after := func(change string, err error, try func() error, good func(error) bool) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", change, err)
		}
		since := time.Now()
		eventually.Nil(t, change, func() error {
			if err := try(); !good(err) {
				return fmt.Errorf("the request is answered with: %v", err)
			}
			return nil
		})
		t.Logf("%s: counts after %s", change, time.Since(since).Round(time.Millisecond))
	}

	api := eks.NewFromConfig(d.Config())
	name, principal := aws.String("effect"), aws.String(arn)
	view := aws.String("arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy")
	after("nothing", nil, pods, apierrors.IsUnauthorized)

	_, err = api.CreateAccessEntry(ctx, &eks.CreateAccessEntryInput{ClusterName: name, PrincipalArn: principal})
	after("create-access-entry", err, pods, apierrors.IsForbidden)
	who, err := dev.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	id := strings.TrimPrefix(who.Status.UserInfo.UID, "aws-iam-authenticator:111122223333:")
	want := authenticationv1.UserInfo{
		Username: arn,
		UID:      "aws-iam-authenticator:111122223333:" + id,
		Groups:   []string{"system:authenticated"},
		Extra: map[string]authenticationv1.ExtraValue{
			"accessKeyId":  {*key.AccessKey.AccessKeyId},
			"arn":          {arn},
			"canonicalArn": {arn},
			"principalId":  {id},
			"sessionName":  {""},
			"sigs.k8s.io/aws-iam-authenticator/principalId": {id},
		},
	}
	if diff := cmp.Diff(want, who.Status.UserInfo); diff != "" || !strings.HasPrefix(id, "AIDA") {
		t.Errorf("whoami (-want +got):\n%s", diff)
	}

	_, err = api.AssociateAccessPolicy(ctx, &eks.AssociateAccessPolicyInput{
		ClusterName: name, PrincipalArn: principal, PolicyArn: view,
		AccessScope: &ekstypes.AccessScope{Type: ekstypes.AccessScopeTypeCluster},
	})
	after("associate-access-policy", err, pods, allowed)
	_, err = api.AssociateAccessPolicy(ctx, &eks.AssociateAccessPolicyInput{
		ClusterName: name, PrincipalArn: principal, PolicyArn: view,
		AccessScope: &ekstypes.AccessScope{Type: ekstypes.AccessScopeTypeNamespace, Namespaces: []string{"kube-*"}},
	})
	after("associate-access-policy in other namespaces", err, pods, apierrors.IsForbidden)
	_, err = api.DisassociateAccessPolicy(ctx, &eks.DisassociateAccessPolicyInput{ClusterName: name,
		PrincipalArn: principal, PolicyArn: view})
	after("disassociate-access-policy", err, func() error {
		_, err := dev.CoreV1().Pods("kube-system").List(ctx, metav1.ListOptions{})
		return err
	}, apierrors.IsForbidden)

	_, err = admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "operators"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "operators"}},
	}, metav1.CreateOptions{})
	after("binding a group", err, nodes, apierrors.IsForbidden)
	_, err = api.UpdateAccessEntry(ctx, &eks.UpdateAccessEntryInput{ClusterName: name, PrincipalArn: principal,
		KubernetesGroups: []string{"operators"}})
	after("update-access-entry with a group", err, nodes, allowed)
	_, err = api.UpdateAccessEntry(ctx, &eks.UpdateAccessEntryInput{ClusterName: name, PrincipalArn: principal,
		KubernetesGroups: []string{}})
	after("update-access-entry without it", err, nodes, apierrors.IsForbidden)
	_, err = api.DeleteAccessEntry(ctx, &eks.DeleteAccessEntryInput{ClusterName: name, PrincipalArn: principal})
	after("delete-access-entry", err, nodes, apierrors.IsUnauthorized)

	maps := admin.CoreV1().ConfigMaps("kube-system")
	write := func(mapUsers string) error {
		return eventually.Try(10*time.Millisecond, func() error { return replaceAWSAuth(ctx, maps, mapUsers) })
	}
	after("aws-auth with the user", write("- userarn: "+arn+"\n  username: dev\n  groups: [operators]\n"), nodes,
		allowed)
	after("aws-auth without the group", write("- userarn: "+arn+"\n  username: dev\n"), nodes, apierrors.IsForbidden)
	// A webhook refuses changes that the authenticator could not read, but not what is created so.
	const unreadable = "- username: nobody\n"
	if err := replaceAWSAuth(ctx, maps, unreadable); !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), "mapUsers[0]: value for userarn must be supplied") {
		t.Errorf("a change to an entry without a user: %v", err)
	}
	err = maps.Delete(ctx, "aws-auth", metav1.DeleteOptions{})
	after("deletion of aws-auth", err, nodes, apierrors.IsUnauthorized)
	after("aws-auth without the user", write(unreadable), nodes, apierrors.IsUnauthorized)
	authenticatorLog := filepath.Join(d.Dir, "clusters", clusterID(cluster), "log", "authenticator.log")
	eventually.True(t, "aws-auth has been read", func() bool {
		log, _ := os.ReadFile(authenticatorLog)
		return strings.Contains(string(log), "error parsing aws-auth")
	})

	log, err := os.ReadFile(authenticatorLog)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`level=info msg="access granted" arn="` + arn + `" client=`,
		`level=warning msg="error parsing aws-auth; the entry is skipped" error="mapUsers[0]: value for userarn must be supplied"`,
		`level=warning msg="access denied" arn="` + arn + `" client=`,
	} {
		if !strings.Contains(string(log), line) {
			t.Errorf("the authenticator log has no line with %s", line)
		}
	}
}

// clusterID returns the ID in the cluster's issuer.
func clusterID(c *ekstypes.Cluster) string {
	return (*c.Identity.Oidc.Issuer)[strings.LastIndexByte(*c.Identity.Oidc.Issuer, '/')+1:]
}

type configMaps interface {
	Get(context.Context, string, metav1.GetOptions) (*corev1.ConfigMap, error)
	Create(context.Context, *corev1.ConfigMap, metav1.CreateOptions) (*corev1.ConfigMap, error)
	Update(context.Context, *corev1.ConfigMap, metav1.UpdateOptions) (*corev1.ConfigMap, error)
}

func replaceAWSAuth(ctx context.Context, maps configMaps, mapUsers string) error {
	found, err := maps.Get(ctx, "aws-auth", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "aws-auth"},
			Data: map[string]string{"mapUsers": mapUsers}}, metav1.CreateOptions{})
		return err
	} else if err != nil {
		return err
	}
	found.Data = map[string]string{"mapUsers": mapUsers}
	_, err = maps.Update(ctx, found, metav1.UpdateOptions{})
	return err
}
