// Package isolation shows that accounts and clusters of one daemon are apart: what belongs to one
// neither opens nor shows anything of the other. SECURITY.md names these tests beside its promises.
package isolation

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/kube/authenticator/authenticatortest"
	"github.com/coracle-eks/coracle/test/harness"
)

// tenant is an account with a cluster and one of everything that another account might want.
type tenant struct {
	account string
	config  aws.Config
	cluster *ekstypes.Cluster
	ca      []byte

	subnet, securityGroup string
}

// id returns the cluster's ID, which names its directory.
func (x *tenant) id() string { return path.Base(*x.cluster.Identity.Oidc.Issuer) }

func (x *tenant) role(name string) string { return "arn:aws:iam::" + x.account + ":role/" + name }

// client returns a client of the tenant's API server with a bearer token.
func (x *tenant) client(t *testing.T, token string) *kubernetes.Clientset {
	t.Helper()
	c, err := kubernetes.NewForConfig(&rest.Config{
		Host: *x.cluster.Endpoint, BearerToken: token, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: x.ca},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// token returns a token as "aws eks get-token" makes it, signed with the tenant's root access key.
func (x *tenant) token(t *testing.T, cluster string) string {
	t.Helper()
	token, err := authenticatortest.Token(t.Context(), x.config, cluster)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// serviceAccountToken returns a token of the default service account of the tenant's cluster.
func (x *tenant) serviceAccountToken(t *testing.T, audiences ...string) string {
	t.Helper()
	out, err := x.client(t, x.token(t, *x.cluster.Name)).CoreV1().ServiceAccounts("default").CreateToken(t.Context(),
		"default",
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return out.Status.Token
}

// newTenant creates the tenant's resources. Both tenants use the same names wherever AWS lets them.
func newTenant(t *testing.T, d *harness.Daemon, account string, config aws.Config) *tenant {
	t.Helper()
	ctx := t.Context()
	x := &tenant{account: account, config: config}
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("account %s: %v", account, err)
		}
	}
	roles := iam.NewFromConfig(config)
	must(roles.CreateRole(ctx, &iam.CreateRoleInput{RoleName: aws.String("eks"), AssumeRolePolicyDocument: aws.String(
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"eks.amazonaws.com"},"Action":"sts:AssumeRole"}]}`)}))
	must(roles.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: aws.String("eks"),
		PolicyArn: aws.String("arn:aws:iam::aws:policy/AmazonEKSClusterPolicy")}))
	must(roles.CreateRole(ctx, &iam.CreateRoleInput{RoleName: aws.String("admin"), AssumeRolePolicyDocument: aws.String(
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::` + account +
			`:root"},"Action":"sts:AssumeRole"}]}`)}))
	subnets, err := ec2.NewFromConfig(config).DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{})
	must(subnets, err)
	x.subnet = *subnets.Subnets[0].SubnetId
	groups, err := ec2.NewFromConfig(config).DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{})
	must(groups, err)
	x.securityGroup = *groups.SecurityGroups[0].GroupId
	must(ecr.NewFromConfig(config).CreateRepository(ctx, &ecr.CreateRepositoryInput{RepositoryName: aws.String("app")}))
	must(cloudwatchlogs.NewFromConfig(config).CreateLogGroup(ctx,
		&cloudwatchlogs.CreateLogGroupInput{LogGroupName: aws.String("/secret/" + account)}))
	must(ssm.NewFromConfig(config).PutParameter(ctx, &ssm.PutParameterInput{
		Name: aws.String("/secret/" + account), Value: aws.String("of " + account), Type: ssmtypes.ParameterTypeString,
	}))
	api := eks.NewFromConfig(config)
	must(api.CreateCluster(ctx, &eks.CreateClusterInput{
		Name: aws.String("c" + account), Version: aws.String("1.35"), RoleArn: aws.String(x.role("eks")),
		ResourcesVpcConfig: &ekstypes.VpcConfigRequest{SubnetIds: []string{x.subnet, *subnets.Subnets[1].SubnetId}},
	}))
	err = eks.NewClusterActiveWaiter(api).Wait(ctx, &eks.DescribeClusterInput{Name: aws.String("c" + account)},
		eventually.Limit)
	must(nil, err)
	out, err := api.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: aws.String("c" + account)})
	must(out, err)
	x.cluster = out.Cluster
	x.ca, err = base64.StdEncoding.DecodeString(*x.cluster.CertificateAuthority.Data)
	must(nil, err)
	return x
}

func TestTenants(t *testing.T) {
	t.Parallel()
	d := harness.Start(t)
	const second = "444455556666"
	d.Run("", "coracle", "account", "create", second, "--data-dir", d.Dir)
	env := map[string]string{}
	for line := range strings.Lines(d.Run("", "coracle", "env", "--account", second, "--data-dir", d.Dir)) {
		name, value, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		env[name] = value
	}
	one := newTenant(t, d, "111122223333", d.Config())
	two := newTenant(t, d, second, d.ConfigFor(env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"], ""))

	t.Run("the API of an account does not see another account", func(t *testing.T) { accountsAreApart(t, one, two) })
	t.Run("a cluster does not admit another cluster's identities",
		func(t *testing.T) { clustersAreApart(t, d, one, two) })
}

// accountsAreApart calls the API as the root user of one account, who may do everything there, with the names, IDs and
// ARNs of the other.
func accountsAreApart(t *testing.T, one, two *tenant) {
	for _, pair := range [][2]*tenant{{one, two}, {two, one}} {
		me, other := pair[0], pair[1]
		arn := func(service, resource string) *string {
			return aws.String("arn:aws:" + service + ":" + harness.Region + ":" + other.account + ":" + resource)
		}
		clusters, logs, machines := eks.NewFromConfig(me.config), cloudwatchlogs.NewFromConfig(me.config),
			ec2.NewFromConfig(me.config)
		for _, c := range []struct {
			what, code string
			try        func(ctx context.Context) error
		}{
			{"eks describe-cluster", "ResourceNotFoundException", func(ctx context.Context) error {
				_, err := clusters.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: other.cluster.Name})
				return err
			}},
			{"eks list-tags-for-resource", "NotFoundException", func(ctx context.Context) error {
				_, err := clusters.ListTagsForResource(ctx,
					&eks.ListTagsForResourceInput{ResourceArn: other.cluster.Arn})
				return err
			}},
			{"eks create-access-entry", "ResourceNotFoundException", func(ctx context.Context) error {
				_, err := clusters.CreateAccessEntry(ctx, &eks.CreateAccessEntryInput{ClusterName: other.cluster.Name,
					PrincipalArn: aws.String(me.role("admin"))})
				return err
			}},
			{"eks delete-cluster", "ResourceNotFoundException", func(ctx context.Context) error {
				_, err := clusters.DeleteCluster(ctx, &eks.DeleteClusterInput{Name: other.cluster.Name})
				return err
			}},
			{"eks create-cluster with a role of the other account", "AccessDeniedException",
				func(ctx context.Context) error {
					_, err := clusters.CreateCluster(ctx, &eks.CreateClusterInput{Name: aws.String("x"),
						RoleArn: aws.String(other.role("eks")),
						ResourcesVpcConfig: &ekstypes.VpcConfigRequest{
							SubnetIds: me.cluster.ResourcesVpcConfig.SubnetIds}})
					return err
				}},
			{"eks create-cluster in subnets of the other account", "InvalidParameterException",
				func(ctx context.Context) error {
					_, err := clusters.CreateCluster(ctx, &eks.CreateClusterInput{Name: aws.String("x"),
						RoleArn: aws.String(me.role("eks")),
						ResourcesVpcConfig: &ekstypes.VpcConfigRequest{
							SubnetIds: other.cluster.ResourcesVpcConfig.SubnetIds}})
					return err
				}},
			{"sts assume-role", "AccessDenied", func(ctx context.Context) error {
				_, err := sts.NewFromConfig(me.config).AssumeRole(ctx,
					&sts.AssumeRoleInput{RoleArn: aws.String(other.role("admin")),
						RoleSessionName: aws.String("intruder")})
				return err
			}},
			{"ec2 describe-subnets", "InvalidSubnetID.NotFound", func(ctx context.Context) error {
				_, err := machines.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{SubnetIds: []string{other.subnet}})
				return err
			}},
			{"ec2 create-network-interface", "InvalidSubnetID.NotFound", func(ctx context.Context) error {
				_, err := machines.CreateNetworkInterface(ctx,
					&ec2.CreateNetworkInterfaceInput{SubnetId: &other.subnet})
				return err
			}},
			{"ec2 create-network-interface with a security group of the other account", "InvalidGroup.NotFound",
				func(ctx context.Context) error {
					_, err := machines.CreateNetworkInterface(ctx,
						&ec2.CreateNetworkInterfaceInput{SubnetId: &me.subnet,
							Groups: []string{other.securityGroup}})
					return err
				}},
			{"ec2 delete-security-group", "InvalidGroup.NotFound", func(ctx context.Context) error {
				_, err := machines.DeleteSecurityGroup(ctx,
					&ec2.DeleteSecurityGroupInput{GroupId: &other.securityGroup})
				return err
			}},
			{"ecr describe-images", "AccessDeniedException", func(ctx context.Context) error {
				_, err := ecr.NewFromConfig(me.config).DescribeImages(ctx,
					&ecr.DescribeImagesInput{RegistryId: &other.account, RepositoryName: aws.String("app")})
				return err
			}},
			{"ecr initiate-layer-upload", "AccessDeniedException", func(ctx context.Context) error {
				_, err := ecr.NewFromConfig(me.config).InitiateLayerUpload(ctx,
					&ecr.InitiateLayerUploadInput{RegistryId: &other.account, RepositoryName: aws.String("app")})
				return err
			}},
			{"logs filter-log-events", "ResourceNotFoundException", func(ctx context.Context) error {
				_, err := logs.FilterLogEvents(ctx, &cloudwatchlogs.FilterLogEventsInput{LogGroupIdentifier: arn("logs",
					"log-group:/secret/"+other.account)})
				return err
			}},
			{"logs start-query", "ResourceNotFoundException", func(ctx context.Context) error {
				_, err := logs.StartQuery(ctx,
					&cloudwatchlogs.StartQueryInput{LogGroupName: aws.String("/secret/" + other.account),
						StartTime: aws.Int64(0), EndTime: aws.Int64(1), QueryString: aws.String("fields @message")})
				return err
			}},
			{"ssm get-parameter", "ParameterNotFound", func(ctx context.Context) error {
				_, err := ssm.NewFromConfig(me.config).GetParameter(ctx,
					&ssm.GetParameterInput{Name: aws.String("/secret/" + other.account)})
				return err
			}},
			{"ssm get-parameter by ARN", "ParameterNotFound", func(ctx context.Context) error {
				_, err := ssm.NewFromConfig(me.config).GetParameter(ctx,
					&ssm.GetParameterInput{Name: arn("ssm", "parameter/secret/"+other.account)})
				return err
			}},
		} {
			var refused smithy.APIError
			if err := c.try(t.Context()); !errors.As(err, &refused) || refused.ErrorCode() != c.code {
				t.Errorf("account %s calls %s for a resource of account %s: %v, want %s", me.account, c.what,
					other.account, err, c.code)
			}
		}
		if _, err := other.client(t, me.token(t, *other.cluster.Name)).CoreV1().Namespaces().List(t.Context(),
			metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
			t.Errorf("account %s lists the namespaces of %s: %v", me.account, *other.cluster.Name, err)
		}
		list, err := clusters.ListClusters(t.Context(), &eks.ListClustersInput{})
		if err != nil || len(list.Clusters) != 1 || list.Clusters[0] != *me.cluster.Name {
			t.Errorf("account %s lists the clusters %q (%v)", me.account, list.Clusters, err)
		}
	}
}

// clustersAreApart shows every kind of credential of one cluster to the other.
func clustersAreApart(t *testing.T, d *harness.Daemon, one, two *tenant) {
	ctx := t.Context()
	for _, pair := range [][2]*tenant{{one, two}, {two, one}} {
		mine, other := pair[0], pair[1]
		for what, token := range map[string]string{
			"an IAM token for this cluster": mine.token(t, *mine.cluster.Name),
			"a service account token":       mine.serviceAccountToken(t),
			"a service account token with the other cluster's audience": mine.serviceAccountToken(t,
				*other.cluster.Identity.Oidc.Issuer, "https://kubernetes.default.svc"),
		} {
			if _, err := other.client(t, token).CoreV1().Namespaces().List(ctx,
				metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
				t.Errorf("%s of %s at %s: %v", what, *mine.cluster.Name, *other.cluster.Name, err)
			}
		}
		directory, err := filepath.Glob(filepath.Join(d.Dir, "clusters", mine.id(), "pki", "*.crt"))
		if err != nil || len(directory) == 0 {
			t.Fatalf("no certificates of %s: %v", *mine.cluster.Name, err)
		}
		shown := 0
		for _, file := range directory {
			pair, err := tls.LoadX509KeyPair(file, strings.TrimSuffix(file, ".crt")+".key")
			if err != nil {
				continue // a certificate authority whose key is elsewhere
			}
			shown++
			c, err := kubernetes.NewForConfig(&rest.Config{Host: *other.cluster.Endpoint, QPS: -1,
				TLSClientConfig: rest.TLSClientConfig{
					CAData: other.ca, CertFile: file, KeyFile: strings.TrimSuffix(file, ".crt") + ".key"}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.CoreV1().Namespaces().List(ctx, metav1.ListOptions{}); err == nil ||
				apierrors.IsForbidden(err) {
				t.Errorf("the certificate %s (%s) is somebody at %s: %v", filepath.Base(file), pair.Leaf.Subject,
					*other.cluster.Name, err)
			}
		}
		if shown == 0 {
			t.Errorf("%s has no certificate to show", *mine.cluster.Name)
		}

		// The trust policy of a role names one cluster's issuer.
		provider := strings.TrimPrefix(*other.cluster.Identity.Oidc.Issuer, "https://")
		roles := iam.NewFromConfig(other.config)
		if _, err := roles.CreateOpenIDConnectProvider(ctx, &iam.CreateOpenIDConnectProviderInput{
			Url: other.cluster.Identity.Oidc.Issuer, ClientIDList: []string{"sts.amazonaws.com"},
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := roles.CreateRole(ctx, &iam.CreateRoleInput{RoleName: aws.String("pod"),
			AssumeRolePolicyDocument: aws.String(
				`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Federated":"arn:aws:iam::` +
					other.account + `:oidc-provider/` + provider + `"},
			"Action":"sts:AssumeRoleWithWebIdentity"}]}`)}); err != nil {
			t.Fatal(err)
		}
		assume := func(x *tenant) error {
			_, err := sts.NewFromConfig(x.config).AssumeRoleWithWebIdentity(ctx, &sts.AssumeRoleWithWebIdentityInput{
				RoleArn: aws.String(other.role("pod")), RoleSessionName: aws.String("intruder"),
				WebIdentityToken: aws.String(x.serviceAccountToken(t, "sts.amazonaws.com")),
			})
			return err
		}
		if err := assume(mine); err == nil {
			t.Errorf("a service account of %s assumed a role that trusts %s", *mine.cluster.Name, *other.cluster.Name)
		}
		if err := assume(other); err != nil {
			t.Errorf("a service account of %s cannot assume a role that trusts it: %v", *other.cluster.Name, err)
		}
	}
}
