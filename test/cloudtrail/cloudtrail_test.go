// Package cloudtrail tests the event history of CloudTrail as its users meet it: with the AWS command line and the SDK,
// against a daemon that is killed.
package cloudtrail

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudtrail"
	"github.com/aws/aws-sdk-go-v2/service/cloudtrail/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/coracle-eks/coracle/test/harness"
)

// lookup returns the events that have an attribute, the newest first.
func lookup(t *testing.T, d *harness.Daemon, key types.LookupAttributeKey, value string) (all []types.Event) {
	t.Helper()
	pages := cloudtrail.NewLookupEventsPaginator(cloudtrail.NewFromConfig(d.Config()), &cloudtrail.LookupEventsInput{
		LookupAttributes: []types.LookupAttribute{{AttributeKey: key, AttributeValue: &value}}})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page.Events...)
	}
	return all
}

// record is what the test looks at in a record.
type record struct {
	UserIdentity      struct{ Type, ARN, UserName string }
	EventTime         string
	SourceIPAddress   string
	UserAgent         string
	ErrorCode         string
	ErrorMessage      string
	RequestParameters map[string]any
	ResponseElements  map[string]any
	RequestID         string
}

func recordOf(t *testing.T, e types.Event) (r record) {
	t.Helper()
	if err := json.Unmarshal([]byte(*e.CloudTrailEvent), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestEventHistory(t *testing.T) {
	t.Parallel()
	d := harness.Start(t)
	ctx, root := t.Context(), d.Config()

	// A user without permissions is refused by several services.
	people := iam.NewFromConfig(root)
	if _, err := people.CreateUser(ctx, &iam.CreateUserInput{UserName: aws.String("alice")}); err != nil {
		t.Fatal(err)
	}
	made, err := people.CreateAccessKey(ctx, &iam.CreateAccessKeyInput{UserName: aws.String("alice")})
	if err != nil {
		t.Fatal(err)
	}
	alice := d.ConfigFor(*made.AccessKey.AccessKeyId, *made.AccessKey.SecretAccessKey, "")
	if _, err := eks.NewFromConfig(alice).DescribeCluster(ctx, &eks.DescribeClusterInput{
		Name: aws.String("web")}); err == nil {
		t.Error("alice is not refused by EKS")
	}
	if _, err := ec2.NewFromConfig(alice).DescribeVpcs(ctx, &ec2.DescribeVpcsInput{}); err == nil {
		t.Error("alice is not refused by EC2")
	}
	vpc, err := ec2.NewFromConfig(root).CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: aws.String("10.9.0.0/16")})
	if err != nil {
		t.Fatal(err)
	}

	refused := lookup(t, d, types.LookupAttributeKeyUsername, "alice")
	if len(refused) != 2 {
		t.Fatalf("%d events of alice, want 2: %+v", len(refused), refused)
	}
	for i, want := range []struct{ name, source, code, message string }{
		{"DescribeVpcs", "ec2.amazonaws.com", "Client.UnauthorizedOperation", "You are not authorized to perform this " +
			"operation. User: arn:aws:iam::111122223333:user/alice is not authorized to perform: ec2:DescribeVpcs"},
		{"DescribeCluster", "eks.amazonaws.com", "AccessDenied", "User: arn:aws:iam::111122223333:user/alice is not " +
			"authorized to perform: eks:DescribeCluster on resource: arn:aws:eks:eu-west-1:111122223333:cluster/web"},
	} {
		e, r := refused[i], recordOf(t, refused[i])
		if *e.EventName != want.name || *e.EventSource != want.source || r.ErrorCode != want.code ||
			!strings.HasPrefix(r.ErrorMessage, want.message) {
			t.Errorf("the event is %s, want %+v", *e.CloudTrailEvent, want)
		}
		if r.UserIdentity.Type != "IAMUser" || r.SourceIPAddress != "127.0.0.1" ||
			!strings.Contains(r.UserAgent, "aws-sdk-go-v2") || r.RequestID == "" {
			t.Errorf("the record is %s", *e.CloudTrailEvent)
		}
	}
	if found := lookup(t, d, types.LookupAttributeKeyResourceName, "web"); len(found) != 1 {
		t.Errorf("%d events are about the cluster web", len(found))
	}
	if found := lookup(t, d, types.LookupAttributeKeyResourceName, *vpc.Vpc.VpcId); len(found) != 1 ||
		*found[0].EventName != "CreateVpc" {
		t.Errorf("%d events are about the VPC", len(found))
	}

	// IAM is global: its events are in us-east-1.
	if found := lookup(t, d, types.LookupAttributeKeyEventName, "CreateUser"); len(found) != 0 {
		t.Errorf("%d events of IAM are in %s", len(found), harness.Region)
	}
	var listed struct {
		Events []struct{ EventName, Username, ReadOnly, CloudTrailEvent string }
	}
	d.AWS(&listed, "cloudtrail", "lookup-events", "--region", "us-east-1", "--lookup-attributes",
		"AttributeKey=EventName,AttributeValue=CreateUser")
	if len(listed.Events) != 1 || listed.Events[0].Username != "root" || listed.Events[0].ReadOnly != "false" {
		t.Errorf("the command line lists %+v", listed)
	}

	// What was shown is kept, whatever happens to the daemon.
	d.Kill()
	d.Serve()
	again := lookup(t, d, types.LookupAttributeKeyUsername, "alice")
	if len(again) != 2 || *again[0].EventId != *refused[0].EventId || *again[1].EventId != *refused[1].EventId {
		t.Errorf("after SIGKILL there are %d events of alice", len(again))
	}

	// A daemon that is stopped writes what nobody has looked for.
	if _, err := ec2.NewFromConfig(root).DeleteVpc(ctx, &ec2.DeleteVpcInput{VpcId: vpc.Vpc.VpcId}); err != nil {
		t.Fatal(err)
	}
	d.Run("", harness.Binary(t), "down", "--data-dir", d.Dir)
	<-d.Exited()
	d.Serve()
	if found := lookup(t, d, types.LookupAttributeKeyEventName, "DeleteVpc"); len(found) != 1 {
		t.Errorf("%d events after a restart", len(found))
	}
}

// TestServicesActForTheirCallers looks at what CloudFormation does for who creates a stack.
func TestServicesActForTheirCallers(t *testing.T) {
	t.Parallel()
	d := harness.Start(t)
	template := `{"Resources":{"Net":{"Type":"AWS::EC2::VPC","Properties":{"CidrBlock":"10.8.0.0/16"}}}}`
	d.AWS(nil, "cloudformation", "create-stack", "--stack-name", "net", "--template-body", template)
	d.Run("", "aws", "cloudformation", "wait", "stack-create-complete", "--stack-name", "net")
	found := lookup(t, d, types.LookupAttributeKeyEventName, "CreateVpc")
	if len(found) != 1 {
		t.Fatalf("%d events", len(found))
	}
	var r struct {
		UserIdentity               struct{ Type, InvokedBy string }
		SourceIPAddress, UserAgent string
	}
	if err := json.Unmarshal([]byte(*found[0].CloudTrailEvent), &r); err != nil {
		t.Fatal(err)
	}
	const service = "cloudformation.amazonaws.com"
	if r.UserIdentity.Type != "Root" || r.UserIdentity.InvokedBy != service || r.SourceIPAddress != service ||
		r.UserAgent != service {
		t.Errorf("the record is %s", *found[0].CloudTrailEvent)
	}
	vpcs, err := ec2.NewFromConfig(d.Config()).DescribeVpcs(context.Background(), &ec2.DescribeVpcsInput{
		Filters: []ec2types.Filter{{Name: aws.String("cidr"), Values: []string{"10.8.0.0/16"}}}})
	if err != nil || len(vpcs.Vpcs) != 1 {
		t.Fatalf("%v: %+v", err, vpcs)
	}
}
