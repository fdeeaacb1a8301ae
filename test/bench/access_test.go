package bench

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/test/harness"
)

// BenchmarkAccess measures when a change of an access entry counts for a client whose answers the API server caches.
func BenchmarkAccess(b *testing.B) {
	const samples = 10
	d := harness.Start(b)
	d.CreateCluster("access", version, d.ClusterRole(), d.Subnets())
	d.AwaitStatus("access", ekstypes.ClusterStatusActive)
	ctx, api := b.Context(), eks.NewFromConfig(d.Config())
	user := "dev"
	users := iam.NewFromConfig(d.Config())
	created, err := users.CreateUser(ctx, &iam.CreateUserInput{UserName: &user})
	if err != nil {
		b.Fatal(err)
	}
	key, err := users.CreateAccessKey(ctx, &iam.CreateAccessKeyInput{UserName: &user})
	if err != nil {
		b.Fatal(err)
	}
	_, admin := kubernetesClient(b, d, "access")
	config := rest.CopyConfig(admin)
	config.BearerToken = d.Token("access", "AWS_ACCESS_KEY_ID="+*key.AccessKey.AccessKeyId,
		"AWS_SECRET_ACCESS_KEY="+*key.AccessKey.SecretAccessKey)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		b.Fatal(err)
	}
	name, arn := aws.String("access"), created.User.Arn
	policy := aws.String("arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy")

	var took []time.Duration
	measure := func(change error, good func(error) bool) {
		b.Helper()
		if change != nil {
			b.Fatal(change)
		}
		start := time.Now()
		eventually.Nil(b, "the change counts", func() error {
			_, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
			if !good(err) {
				return errors.Join(errors.New("it does not"), err)
			}
			return nil
		})
		took = append(took, time.Since(start))
	}
	for range samples {
		_, err := api.CreateAccessEntry(ctx, &eks.CreateAccessEntryInput{ClusterName: name, PrincipalArn: arn})
		measure(err, apierrors.IsForbidden)
		_, err = api.AssociateAccessPolicy(ctx, &eks.AssociateAccessPolicyInput{
			ClusterName: name, PrincipalArn: arn, PolicyArn: policy,
			AccessScope: &ekstypes.AccessScope{Type: ekstypes.AccessScopeTypeCluster},
		})
		measure(err, func(err error) bool { return err == nil })
		_, err = api.DisassociateAccessPolicy(ctx, &eks.DisassociateAccessPolicyInput{
			ClusterName: name, PrincipalArn: arn, PolicyArn: policy,
		})
		measure(err, apierrors.IsForbidden)
		_, err = api.DeleteAccessEntry(ctx, &eks.DeleteAccessEntryInput{ClusterName: name, PrincipalArn: arn})
		measure(err, apierrors.IsUnauthorized)
	}
	longest := quantile(took, 1)
	b.ReportMetric(longest.Seconds(), "s")
	report(row{
		fmt.Sprintf("a change of access counts (longest of %d)", len(took)), seconds(longest), "2 s",
		"median " + seconds(quantile(took, 0.5)),
	})
}
