package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/test/harness"
)

// stacks is a client of CloudFormation.
type stacks struct {
	*cloudformation.Client
	b testing.TB
}

func (s stacks) create(name, body string) {
	if _, err := s.CreateStack(context.Background(), &cloudformation.CreateStackInput{StackName: &name,
		TemplateBody: &body, Capabilities: []types.Capability{types.CapabilityCapabilityIam}}); err != nil {
		s.b.Error(err)
	}
}

// await waits until a stack has a status. A stack that is deleted has no name.
func (s stacks) await(name string, want types.StackStatus) {
	err := eventually.Try(10*time.Millisecond, func() error {
		out, err := s.DescribeStacks(context.Background(), &cloudformation.DescribeStacksInput{StackName: &name})
		if err != nil {
			if want == types.StackStatusDeleteComplete && strings.Contains(err.Error(), "does not exist") {
				return nil
			}
			return eventually.Never(err)
		}
		switch now := out.Stacks[0].StackStatus; {
		case now == want:
			return nil
		case strings.HasSuffix(string(now), "_IN_PROGRESS"):
			return fmt.Errorf("stack %s is %s", name, now)
		default:
			return eventually.Never(fmt.Errorf("stack %s is %s: %s", name, now, s.failures(name)))
		}
	})
	if err != nil {
		s.b.Error(err)
	}
}

// failures returns what the events of a stack tell of failures.
func (s stacks) failures(name string) string {
	out, err := s.DescribeStackEvents(context.Background(), &cloudformation.DescribeStackEventsInput{StackName: &name})
	if err != nil {
		return err.Error()
	}
	var all []string
	for _, e := range out.StackEvents {
		if strings.HasSuffix(string(e.ResourceStatus), "_FAILED") {
			all = append(all, aws.ToString(e.LogicalResourceId)+": "+aws.ToString(e.ResourceStatusReason))
		}
	}
	return strings.Join(all, "; ")
}

func (s stacks) delete(name string) {
	if _, err := s.DeleteStack(context.Background(), &cloudformation.DeleteStackInput{StackName: &name}); err != nil {
		s.b.Error(err)
	}
	s.await(name, types.StackStatusDeleteComplete)
}

const trust = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},` +
	`"Action":"sts:AssumeRole"}]}`

// quarters is a template of four times n resources: roles, security groups in a VPC, and log groups and parameters that
// are named after them.
func quarters(n int, vpc, output string) string {
	var all []string
	for i := range n {
		all = append(all,
			fmt.Sprintf(`"Role%d":{"Type":"AWS::IAM::Role","Properties":{"AssumeRolePolicyDocument":%s}}`, i, trust),
			fmt.Sprintf(`"Sg%d":{"Type":"AWS::EC2::SecurityGroup","Properties":{"VpcId":%q,"GroupDescription":"g"}}`, i, vpc),
			fmt.Sprintf(`"Logs%d":{"Type":"AWS::Logs::LogGroup","Properties":{"RetentionInDays":7,
				"LogGroupName":{"Fn::Sub":"/${AWS::StackName}/${Sg%d}"}}}`, i, i),
			fmt.Sprintf(`"Arn%d":{"Type":"AWS::SSM::Parameter","Properties":{"Type":"String",
				"Value":{"Fn::GetAtt":["Role%d","Arn"]}}}`, i, i))
	}
	return `{"Resources":{` + strings.Join(all, ",") + `},"Outputs":{"O":{"Value":"` + output + `"}}}`
}

// byAPI makes what quarters has with the clients of the services, and deletes it.
func byAPI(b *testing.B, config aws.Config, n int, vpc string) (create, remove time.Duration) {
	ctx := b.Context()
	roles, network := iam.NewFromConfig(config), ec2.NewFromConfig(config)
	logs, parameters := cloudwatchlogs.NewFromConfig(config), ssm.NewFromConfig(config)
	groups := make([]*string, n)
	all := func(each func(i int) error) time.Duration {
		start := time.Now()
		places := make(chan struct{}, 4)
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				places <- struct{}{}
				if err := each(i); err != nil {
					b.Error(err)
				}
				<-places
			})
		}
		wg.Wait()
		return time.Since(start)
	}
	create = all(func(i int) error {
		name := fmt.Sprintf("by-api-%d", i)
		role, err := roles.CreateRole(ctx, &iam.CreateRoleInput{RoleName: &name, AssumeRolePolicyDocument: aws.String(trust)})
		if err != nil {
			return err
		}
		group, err := network.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{GroupName: &name, VpcId: &vpc,
			Description: aws.String("g")})
		if err != nil {
			return err
		}
		groups[i] = group.GroupId
		if _, err := logs.CreateLogGroup(ctx, &cloudwatchlogs.CreateLogGroupInput{LogGroupName: &name}); err != nil {
			return err
		}
		if _, err := logs.PutRetentionPolicy(ctx, &cloudwatchlogs.PutRetentionPolicyInput{LogGroupName: &name,
			RetentionInDays: aws.Int32(7)}); err != nil {
			return err
		}
		_, err = parameters.PutParameter(ctx, &ssm.PutParameterInput{Name: &name, Value: role.Role.Arn,
			Type: ssmtypes.ParameterTypeString})
		return err
	})
	remove = all(func(i int) error {
		name := fmt.Sprintf("by-api-%d", i)
		if _, err := parameters.DeleteParameter(ctx, &ssm.DeleteParameterInput{Name: &name}); err != nil {
			return err
		}
		if _, err := logs.DeleteLogGroup(ctx, &cloudwatchlogs.DeleteLogGroupInput{LogGroupName: &name}); err != nil {
			return err
		}
		if _, err := network.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: groups[i]}); err != nil {
			return err
		}
		_, err := roles.DeleteRole(ctx, &iam.DeleteRoleInput{RoleName: &name})
		return err
	})
	return create, remove
}

func defaultVPC(b *testing.B, config aws.Config) string {
	b.Helper()
	out, err := ec2.NewFromConfig(config).DescribeVpcs(b.Context(), &ec2.DescribeVpcsInput{})
	if err != nil || len(out.Vpcs) == 0 {
		b.Fatalf("no VPC: %v", err)
	}
	return *out.Vpcs[0].VpcId
}

// BenchmarkStack creates a stack of 200 resources, updates it to what it is, and deletes it.
func BenchmarkStack(b *testing.B) {
	const quarter = 50
	d := harness.Start(b)
	s := stacks{cloudformation.NewFromConfig(d.Config()), b}
	vpc := defaultVPC(b, d.Config())
	apiCreate, apiDelete := byAPI(b, d.Config(), quarter, vpc)

	start := time.Now()
	s.create("many", quarters(quarter, vpc, "one"))
	s.await("many", types.StackStatusCreateComplete)
	create := time.Since(start)

	start = time.Now()
	_, err := s.UpdateStack(b.Context(), &cloudformation.UpdateStackInput{StackName: aws.String("many"),
		TemplateBody: aws.String(quarters(quarter, vpc, "one")),
		Capabilities: []types.Capability{types.CapabilityCapabilityIam}})
	nothing := time.Since(start)
	if err == nil || !strings.Contains(err.Error(), "No updates are to be performed") {
		b.Fatalf("an update of nothing: %v", err)
	}
	start = time.Now()
	if _, err := s.UpdateStack(b.Context(), &cloudformation.UpdateStackInput{StackName: aws.String("many"),
		TemplateBody: aws.String(quarters(quarter, vpc, "two")),
		Capabilities: []types.Capability{types.CapabilityCapabilityIam}}); err != nil {
		b.Fatal(err)
	}
	s.await("many", types.StackStatusUpdateComplete)
	output := time.Since(start)

	start = time.Now()
	s.delete("many")
	remove := time.Since(start)
	b.ReportMetric(create.Seconds(), "s/create")
	b.ReportMetric(remove.Seconds(), "s/delete")
	report(row{"stack of 200 resources: CreateStack to CREATE_COMPLETE", seconds(create), "6 s",
		"the same calls by SDK clients, 4 at a time: " + seconds(apiCreate)})
	report(row{"the same, updated to what it is", seconds(nothing), "0.3 s",
		"with another output, to UPDATE_COMPLETE: " + seconds(output)})
	report(row{"the same, deleted", seconds(remove), "6 s", "by SDK clients: " + seconds(apiDelete)})
}

// BenchmarkStacks creates 100 stacks at once.
func BenchmarkStacks(b *testing.B) {
	const n = 100
	d := harness.Start(b)
	s := stacks{cloudformation.NewFromConfig(d.Config()), b}
	vpc := defaultVPC(b, d.Config())
	all := func(each func(name string)) time.Duration {
		start := time.Now()
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() { each(fmt.Sprintf("stack-%d", i)) })
		}
		wg.Wait()
		return time.Since(start)
	}
	create := all(func(name string) {
		s.create(name, quarters(1, vpc, "one"))
		s.await(name, types.StackStatusCreateComplete)
	})
	remove := all(s.delete)
	b.ReportMetric(create.Seconds(), "s/100stacks")
	report(row{"100 stacks of 4 resources created at once, all CREATE_COMPLETE", seconds(create), "30 s",
		"deleted at once: " + seconds(remove)})
}

// BenchmarkClusterStack creates the stack that `eksctl create cluster` creates: VPC, NAT gateway, roles and cluster.
func BenchmarkClusterStack(b *testing.B) {
	const samples = 3
	d := harness.Start(b)
	s := stacks{cloudformation.NewFromConfig(d.Config()), b}
	text, err := os.ReadFile(filepath.Join(testenv.Root(), "internal", "cloudformation", "template", "testdata",
		"cluster.json"))
	if err != nil {
		b.Fatal(err)
	}
	role, subnets := d.ClusterRole(), d.Subnets()
	var ours, alone, gone []time.Duration
	for i := range samples + 1 { // the first warms the page cache
		name := fmt.Sprintf("alone-%d", i)
		start := time.Now()
		d.CreateCluster(name, version, role, subnets)
		d.AwaitStatus(name, ekstypes.ClusterStatusActive)
		took := time.Since(start)
		if _, err := eks.NewFromConfig(d.Config()).DeleteCluster(b.Context(),
			&eks.DeleteClusterInput{Name: &name}); err != nil {
			b.Fatal(err)
		}
		d.AwaitGone(name)

		name = fmt.Sprintf("stack-%d", i)
		body := strings.NewReplacer("us-west-2", harness.Region, `"1.31"`, `"`+version+`"`, "ironman-2022", name).
			Replace(string(text))
		start = time.Now()
		s.create(name, body)
		s.await(name, types.StackStatusCreateComplete)
		whole := time.Since(start)
		start = time.Now()
		s.delete(name)
		if i > 0 {
			alone, ours, gone = append(alone, took), append(ours, whole), append(gone, time.Since(start))
		}
	}
	stack, cluster := quantile(ours, 0.5), quantile(alone, 0.5)
	b.ReportMetric(stack.Seconds(), "s/clusterstack")
	report(row{fmt.Sprintf("cluster stack of eksctl, to CREATE_COMPLETE (median of %d)", samples), seconds(stack),
		seconds(cluster + 2*time.Second), "CreateCluster alone " + seconds(cluster) + ", plus 2 s; EKS: 10 to 15 min"})
	report(row{"the same, deleted", seconds(quantile(gone, 0.5)), "", ""})
}
