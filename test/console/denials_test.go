package console

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"

	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/browser"
)

// TestRecentDenials finds out why a call was denied, and lets it through.
func TestRecentDenials(t *testing.T) {
	t.Parallel()
	chromium, d := browser.Start(t), harness.Start(t)
	var made struct {
		AccessKey struct{ AccessKeyId, SecretAccessKey string }
	}
	d.AWS(nil, "iam", "create-user", "--user-name", "alice")
	d.AWS(&made, "iam", "create-access-key", "--user-name", "alice")
	key := made.AccessKey

	// Alice is refused, and may not look into the event history.
	hers := browser.Open(t, chromium, d.Endpoint, 1280, 900)
	hers.Expect("403 (Forbidden)")
	hers.Expect("400 (Bad Request)") // CloudTrail's refusals
	hers.Go("/console/denials")
	hers.Fill("Access key ID", key.AccessKeyId)
	hers.Fill("Secret access key", key.SecretAccessKey)
	hers.Click("Sign in")
	hers.See("is not authorized to perform: cloudtrail:LookupEvents")
	hers.Go("/console/clusters")
	hers.See("is not authorized to perform: eks:ListClusters")

	// An administrator finds the call, and what is missing.
	tab := browser.Open(t, chromium, d.Endpoint, 1280, 900)
	tab.Go(link(t, d))
	tab.See("No clusters")
	tab.Click("Recent denials")
	tab.See("cloudtrail:LookupEvents")
	const alice = "arn:aws:iam::111122223333:user/alice"
	tab.Click("Select eks:ListClusters by " + alice)
	tab.See("No statement allows eks:ListClusters.")
	tab.See("The user alice has no policies.")
	tab.See("aws iam put-user-policy")
	eachLook(tab, "denials")
	tab.Click("Add the policy to the user")
	tab.See("The user alice has the policy allow-eks-ListClusters now.")
	tab.See("The policies allow it now.")

	hers.Go("/console/clusters")
	hers.See("No clusters")

	// A statement that denies is shown with its policy.
	d.AWS(nil, "iam", "put-user-policy", "--user-name", "alice", "--policy-name", "no-secrets", "--policy-document",
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"eks:*","Resource":"*"},{"Sid":"NotThisOne",`+
			`"Effect":"Deny","Action":"eks:Describe*","Resource":"arn:aws:eks:*:*:cluster/secret"}]}`)
	her := d.ConfigFor(key.AccessKeyId, key.SecretAccessKey, "")
	if _, err := eks.NewFromConfig(her).DescribeCluster(t.Context(), &eks.DescribeClusterInput{
		Name: aws.String("secret")}); err == nil {
		t.Error("alice may describe the cluster")
	}
	tab.Click("Refresh denied calls")
	tab.Click("Select eks:DescribeCluster by " + alice)
	tab.See("A statement denies it. No other statement can allow it.")
	tab.See("NotThisOne")
	tab.See("This command removes it:")
	tab.Screenshot("denied-by-a-statement")

	// The event history has what was changed, and by whom.
	vpc, err := ec2.NewFromConfig(d.Config()).CreateVpc(t.Context(), &ec2.CreateVpcInput{
		CidrBlock: aws.String("10.9.0.0/16")})
	if err != nil {
		t.Fatal(err)
	}
	tab.Click("Event history")
	tab.See("CreateVpc")
	tab.See(*vpc.Vpc.VpcId)
	eachLook(tab, "event-history")
	tab.Click("CreateVpc")
	tab.See("Event record")
	tab.See(`"recipientAccountId": "111122223333"`)
	tab.Accessible("an event")
	tab.Screenshot("event")
}
