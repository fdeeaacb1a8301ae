package eksauth_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/eksauth"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	coracleeksauth "github.com/coracle-eks/coracle/internal/aws/eksauth"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/test/awsclient"
)

const (
	trust = `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"Service":"pods.eks.amazonaws.com"},
		"Action":["sts:AssumeRole","sts:TagSession"]%s}}`
	clusterARN = "arn:aws:eks:us-east-1:111122223333:cluster/ironman-2022"
)

// fixture is EKS Auth beside IAM and STS, with a cluster whose API server accepts all tokens but those that reject
// says.
type fixture struct {
	*iamtest.AWS
	t       *testing.T
	cluster record.Cluster
	review  error // of every token, when set
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{AWS: iamtest.New(t), t: t, cluster: record.Cluster{Account: iamtest.Account, Region: iamtest.Region,
		Name: "ironman-2022", ID: "EXAMPLED539D4633E53DE1B716D3041E", Tags: map[string]string{"team": "a"}}}
	if _, err := record.Clusters(f.Store).Create(t.Context(), f.cluster.Key(), f.cluster); err != nil {
		t.Fatal(err)
	}
	coracleeksauth.New(coracleeksauth.Options{
		Store: f.Store, Identity: f.Identity, Now: f.Now,
		STS: func(_ string, who aws.CredentialsProvider) coracleeksauth.STS {
			return sts.New(sts.Options{Region: iamtest.Region, BaseEndpoint: &f.URL, HTTPClient: awsclient.HTTP(),
				Credentials: who})
		},
		Review: func(_ context.Context, c record.Cluster, token string) (coracleeksauth.Pod, error) {
			if f.review != nil || c.ID != f.cluster.ID || !strings.Contains(token, ".") {
				return coracleeksauth.Pod{}, f.review
			}
			return coracleeksauth.Pod{Namespace: "default", ServiceAccount: "app", Name: "web-0", UID: "1f2e3d"}, nil
		},
	}).Register(f.Mux)
	return f
}

// associate gives the service account "app" a role with a trust policy, and an edit (optional) of the association.
func (f *fixture) associate(role, trust string, edit func(*record.PodIdentityAssociation)) {
	f.t.Helper()
	a := record.PodIdentityAssociation{Account: f.cluster.Account, Region: f.cluster.Region, Cluster: f.cluster.Name,
		ClusterID: f.cluster.ID, ID: "a-1", Namespace: "default", ServiceAccount: "app",
		RoleARN: f.NewRole(f.t, role, trust)}
	if edit != nil {
		edit(&a)
	}
	if _, err := record.PodIdentityAssociations(f.Store).Put(f.t.Context(), a.Key(), a); err != nil {
		f.t.Fatal(err)
	}
}

// assume calls the operation as a node does.
func (f *fixture) assume(with aws.Credentials, cluster, token string) (*eksauth.AssumeRoleForPodIdentityOutput, error) {
	client := eksauth.New(eksauth.Options{Region: iamtest.Region, BaseEndpoint: &f.URL, HTTPClient: awsclient.HTTP(),
		RetryMaxAttempts: 1, Credentials: credentials.StaticCredentialsProvider{Value: with}})
	return client.AssumeRoleForPodIdentity(f.t.Context(), &eksauth.AssumeRoleForPodIdentityInput{ClusterName: &cluster,
		Token: &token})
}

// token returns a token that expires then; who verifies it is not part of these tests.
func token(t *testing.T, expires time.Time) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.Signed(signer).Claims(jwt.Claims{Expiry: jwt.NewNumericDate(expires)}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (f *fixture) whoami(out *eksauth.AssumeRoleForPodIdentityOutput) (string, aws.Credentials) {
	f.t.Helper()
	c := aws.Credentials{AccessKeyID: *out.Credentials.AccessKeyId, SecretAccessKey: *out.Credentials.SecretAccessKey,
		SessionToken: *out.Credentials.SessionToken}
	return *awstest.Must[*sts.GetCallerIdentityOutput](f.t)(f.STS(c).GetCallerIdentity(f.t.Context(), nil)).Arn, c
}

// TestPodsAssumeRoles checks who a pod becomes, and that policies can go by the tags of its session.
func TestPodsAssumeRoles(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.associate("app", fmt.Sprintf(trust, ""), nil)
	for name, policy := range map[string]string{
		"tags": `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"iam:ListUsers","Resource":"*","Condition":{
			"StringEquals":{"aws:PrincipalTag/kubernetes-namespace":"default","aws:PrincipalTag/kubernetes-pod-name":"web-0",
			"aws:PrincipalTag/kubernetes-pod-uid":"1f2e3d","aws:PrincipalTag/eks-cluster-name":"ironman-2022",
			"aws:PrincipalTag/kubernetes-service-account":"app","aws:PrincipalTag/eks-cluster-arn":"` + clusterARN + `"}}}}`,
		"others": `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"iam:ListRoles","Resource":"*","Condition":{
			"StringEquals":{"aws:PrincipalTag/kubernetes-namespace":"other"}}}}`,
	} {
		awstest.Must[*iam.PutRolePolicyOutput](t)(f.IAM(f.Root).PutRolePolicy(t.Context(), &iam.PutRolePolicyInput{
			RoleName: aws.String("app"), PolicyName: &name, PolicyDocument: &policy}))
	}
	out := awstest.Must[*eksauth.AssumeRoleForPodIdentityOutput](t)(
		f.assume(f.Root, "ironman-2022", token(t, time.Now().Add(time.Hour))))
	if *out.Audience != "pods.eks.amazonaws.com" || *out.Subject.Namespace != "default" ||
		*out.Subject.ServiceAccount != "app" || *out.PodIdentityAssociation.AssociationId != "a-1" ||
		*out.PodIdentityAssociation.AssociationArn !=
			"arn:aws:eks:us-east-1:111122223333:podidentityassociation/ironman-2022/a-1" {
		t.Errorf("answered %+v %+v", out.Subject, out.PodIdentityAssociation)
	}
	if left := time.Until(*out.Credentials.Expiration); left < 5*time.Hour || left > 6*time.Hour {
		t.Errorf("the credentials are good for %v", left)
	}
	arn, pod := f.whoami(out)
	if !strings.HasPrefix(arn, "arn:aws:sts::111122223333:assumed-role/app/eks-ironman-20-web-0-") ||
		arn != *out.AssumedRoleUser.Arn {
		t.Errorf("the pod is %s, and was said to be %s", arn, *out.AssumedRoleUser.Arn)
	}
	if _, err := f.IAM(pod).ListUsers(t.Context(), nil); err != nil {
		t.Errorf("by tags of the session: %v", err)
	}
	if _, err := f.IAM(pod).ListRoles(t.Context(), nil); awstest.Code(err) != "AccessDenied" {
		t.Errorf("by tags of another: %v", err)
	}
}

// TestTargetRoles checks role chaining: who may, with the external ID, the tags that go along, and a session policy.
func TestTargetRoles(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	root := f.NewAccount(t, iamtest.Other)
	mayAssume := `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":["sts:AssumeRole","sts:TagSession"],
		"Resource":"arn:aws:iam::444455556666:role/target"}}`
	target := `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::111122223333:role/app"},
		"Action":["sts:AssumeRole","sts:TagSession"],"Condition":{"StringEquals":{"sts:ExternalId":"%s",
		"aws:PrincipalTag/kubernetes-namespace":"default"}}}}`
	restrict := func(a *record.PodIdentityAssociation) {
		a.TargetRoleARN, a.ExternalID = "arn:aws:iam::444455556666:role/target", "77"
	}
	f.associate("app", fmt.Sprintf(trust, ""), restrict)
	good := token(t, time.Now().Add(time.Hour))
	refused := func(what string) {
		t.Helper()
		_, err := f.assume(f.Root, "ironman-2022", good)
		if awstest.Code(err) != "AccessDeniedException" || !strings.Contains(err.Error(), "target role") {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("without a target role")
	other := f.IAM(root)
	awstest.Must[*iam.CreateRoleOutput](t)(other.CreateRole(t.Context(), &iam.CreateRoleInput{
		RoleName: aws.String("target"), AssumeRolePolicyDocument: aws.String(fmt.Sprintf(target, "88"))}))
	refused("without a permission of the role")
	awstest.Must[*iam.PutRolePolicyOutput](t)(f.IAM(f.Root).PutRolePolicy(t.Context(), &iam.PutRolePolicyInput{
		RoleName: aws.String("app"), PolicyName: aws.String("assume"), PolicyDocument: &mayAssume}))
	refused("with another external ID")
	awstest.Must[*iam.UpdateAssumeRolePolicyOutput](t)(other.UpdateAssumeRolePolicy(t.Context(),
		&iam.UpdateAssumeRolePolicyInput{RoleName: aws.String("target"),
			PolicyDocument: aws.String(fmt.Sprintf(target, "77"))}))
	out := awstest.Must[*eksauth.AssumeRoleForPodIdentityOutput](t)(f.assume(f.Root, "ironman-2022", good))
	arn, _ := f.whoami(out)
	if !strings.HasPrefix(arn, "arn:aws:sts::444455556666:assumed-role/target/eks-ironman-20-web-0-") {
		t.Errorf("the pod is %s", arn)
	}
	if left := time.Until(*out.Credentials.Expiration); left > time.Hour {
		t.Errorf("the credentials of a chained role are good for %v", left)
	}
}

// TestSessionPolicies checks that the policy of an association restricts its sessions, which then have no tags.
func TestSessionPolicies(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	// A role whose trust policy does not allow tags.
	f.associate("app", strings.Replace(fmt.Sprintf(trust, ""), `,"sts:TagSession"`, "", 1),
		func(a *record.PodIdentityAssociation) {
			a.DisableSessionTags = true
			a.SessionPolicy = `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"iam:ListUsers","Resource":"*"}}`
		})
	all := `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"iam:*","Resource":"*"}}`
	awstest.Must[*iam.PutRolePolicyOutput](t)(f.IAM(f.Root).PutRolePolicy(t.Context(), &iam.PutRolePolicyInput{
		RoleName: aws.String("app"), PolicyName: aws.String("all"), PolicyDocument: &all}))
	_, pod := f.whoami(awstest.Must[*eksauth.AssumeRoleForPodIdentityOutput](t)(
		f.assume(f.Root, "ironman-2022", token(t, time.Now().Add(time.Hour)))))
	if _, err := f.IAM(pod).ListUsers(t.Context(), nil); err != nil {
		t.Errorf("what both allow: %v", err)
	}
	if _, err := f.IAM(pod).ListRoles(t.Context(), nil); awstest.Code(err) != "AccessDenied" {
		t.Errorf("what the session policy does not allow: %v", err)
	}
}

// TestTrustPolicies has trust policies with the outcome that AWS documents.
// https://docs.aws.amazon.com/eks/latest/userguide/pod-id-role.html
func TestTrustPolicies(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	when := func(condition string) string { return fmt.Sprintf(trust, `,"Condition":`+condition) }
	good := token(t, time.Now().Add(time.Hour))
	n := 0
	for policy, allowed := range map[string]bool{
		fmt.Sprintf(trust, ""): true,
		strings.Replace(fmt.Sprintf(trust, ""), "pods.eks", "eks", 1):                         false,
		strings.Replace(fmt.Sprintf(trust, ""), `,"sts:TagSession"`, "", 1):                   false,
		strings.Replace(fmt.Sprintf(trust, ""), `"sts:AssumeRole",`, "", 1):                   false,
		strings.Replace(fmt.Sprintf(trust, ""), `"Allow"`, `"Deny"`, 1):                       false,
		when(`{"StringEquals":{"aws:RequestTag/kubernetes-namespace":"default"}}`):            true,
		when(`{"StringEquals":{"aws:RequestTag/kubernetes-namespace":"other"}}`):              false,
		when(`{"StringEquals":{"aws:RequestTag/kubernetes-service-account":"app"}}`):          true,
		when(`{"StringEquals":{"aws:RequestTag/kubernetes-service-account":"other"}}`):        false,
		when(`{"StringEquals":{"aws:RequestTag/kubernetes-pod-name":"web-0"}}`):               true,
		when(`{"StringLike":{"aws:RequestTag/kubernetes-pod-name":"db-*"}}`):                  false,
		when(`{"StringEquals":{"aws:RequestTag/eks-cluster-name":"ironman-2022"}}`):           true,
		when(`{"StringEquals":{"aws:RequestTag/eks-cluster-arn":"` + clusterARN + `"}}`):      true,
		when(`{"StringEquals":{"aws:RequestTag/eks-cluster-arn":"` + clusterARN + `-2"}}`):    false,
		when(`{"ArnEquals":{"aws:SourceArn":"` + clusterARN + `"}}`):                          true,
		when(`{"ArnLike":{"aws:SourceArn":"arn:aws:eks:*:444455556666:cluster/*"}}`):          false,
		when(`{"StringEquals":{"aws:SourceAccount":"111122223333"}}`):                         true,
		when(`{"StringEquals":{"aws:SourceAccount":"444455556666"}}`):                         false,
		when(`{"Bool":{"aws:PrincipalIsAWSService":"true"}}`):                                 true,
		when(`{"ForAllValues:StringLike":{"aws:TagKeys":["eks-*","kubernetes-*"]}}`):          true,
		when(`{"ForAllValues:StringLike":{"aws:TagKeys":["eks-*"]}}`):                         false,
		when(`{"Null":{"aws:RequestTag/kubernetes-pod-uid":"false"}}`):                        true,
		when(`{"ForAnyValue:StringEquals":{"sts:TransitiveTagKeys":"kubernetes-namespace"}}`): true,
		when(`{"StringLike":{"sts:RoleSessionName":"eks-ironman-20-web-0-*"}}`):               true,
		when(`{"StringEquals":{"sts:ExternalId":"7"}}`):                                       false,
	} {
		n++
		f.associate(fmt.Sprintf("role-%d", n), policy, nil)
		_, err := f.assume(f.Root, "ironman-2022", good)
		if allowed && err != nil || !allowed && awstest.Code(err) != "AccessDeniedException" {
			t.Errorf("%s: %v", policy, err)
		}
	}
}

// TestRefusals checks the errors of requests that get nothing.
func TestRefusals(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.associate("app", fmt.Sprintf(trust, ""), nil)
	node := f.NewUser(t, "node", `{"Version":"2012-10-17","Statement":{"Effect":"Allow",
		"Action":"eks-auth:AssumeRoleForPodIdentity","Resource":"`+clusterARN+`","Condition":{"StringEquals":{
		"aws:ResourceTag/team":"a"}}}}`)
	stranger := f.NewUser(t, "stranger", `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"eks:*",
		"Resource":"*"}}`)
	foreign := f.NewAccount(t, iamtest.Other)
	good := token(t, time.Now().Add(time.Hour))
	if _, err := f.assume(node, "ironman-2022", good); err != nil {
		t.Fatalf("a node: %v", err)
	}
	refused := func(what string, with aws.Credentials, cluster, token, code, text string) {
		t.Helper()
		if _, err := f.assume(with, cluster, token); awstest.Code(err) != code || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, want %s %s", what, err, code, text)
		}
	}
	refused("no permission", stranger, "ironman-2022", good, "AccessDeniedException", "eks-auth:AssumeRoleForPodIdentity")
	refused("another cluster", node, "other", good, "AccessDeniedException", "")
	refused("no cluster", f.Root, "other", good, "ResourceNotFoundException", "other")
	refused("another account", foreign, "ironman-2022", good, "ResourceNotFoundException", "ironman-2022")
	refused("no token", node, "ironman-2022", "eyJ", "InvalidParameterException", "token")
	refused("no signature", node, "ironman-2022", "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.", "InvalidParameterException", "")
	refused("an old token", node, "ironman-2022", token(t, time.Now().Add(-time.Second)), "ExpiredTokenException",
		"expired at")
	f.review = fmt.Errorf("%w: pod web-0 is gone", coracleeksauth.ErrInvalidToken)
	refused("a token that is refused", node, "ironman-2022", good, "InvalidTokenException", "pod web-0 is gone")
	f.review = errors.New("connection refused")
	refused("no API server", node, "ironman-2022", good, "ServiceUnavailableException", "connection refused")
	f.review = nil
	key := record.PodIdentityAssociation{Account: f.cluster.Account, Region: f.cluster.Region, Cluster: f.cluster.Name,
		ID: "a-1"}.Key()
	row, err := record.PodIdentityAssociations(f.Store).Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	awstest.Must[*iam.DeleteRoleOutput](t)(f.IAM(f.Root).DeleteRole(t.Context(),
		&iam.DeleteRoleInput{RoleName: aws.String("app")}))
	refused("no role", node, "ironman-2022", good, "AccessDeniedException", "does not exist")
	if err := record.PodIdentityAssociations(f.Store).Delete(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	refused("no association", node, "ironman-2022", good, "ResourceNotFoundException", "service account app")
}
