package ec2_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// putAll writes rows, 100 at a time.
func putAll(t *testing.T, s *store.Store, n int, row func(i int) store.Op) {
	t.Helper()
	var ops []store.Op
	for i := range n {
		if ops = append(ops, row(i)); len(ops) == 100 || i == n-1 {
			if err := s.Txn(t.Context(), ops...); err != nil {
				t.Fatal(err)
			}
			ops = nil
		}
	}
}

// allocated returns how many bytes a call allocates, the second time: by then all rows are decoded.
func allocated(call func()) uint64 {
	call()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	call()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestRulesAreShownOnlyIfAskedFor describes the rules of one group among those of many: what the others would look like
// in an answer is not made first.
func TestRulesAreShownOnlyIfAskedFor(t *testing.T) { //nolint:paralleltest // it measures what the process allocates
	w := ec2test.New(t)
	const groups, rules = 200, 60
	table := record.SecurityGroups(w.Store)
	putAll(t, w.Store, groups, func(i int) store.Op {
		g := record.SecurityGroup{EC2Resource: record.EC2Resource{Account: ec2test.Account, Region: ec2test.Region,
			ID: fmt.Sprintf("sg-%017d", i)}}
		for j := range rules {
			g.Rules = append(g.Rules, record.SecurityGroupRule{ID: fmt.Sprintf("sgr-%011d%06d", i, j), Protocol: "tcp",
				CIDRIPv4: fmt.Sprintf("10.0.%d.0/24", j)})
		}
		return table.PutOp(g.Key(), g)
	})
	var found []types.SecurityGroupRule
	size := allocated(func() {
		found = awstest.Must[*ec2.DescribeSecurityGroupRulesOutput](t)(w.DescribeSecurityGroupRules(t.Context(),
			&ec2.DescribeSecurityGroupRulesInput{Filters: []types.Filter{
				ec2test.Filter("group-id", fmt.Sprintf("sg-%017d", 7))}})).SecurityGroupRules
	})
	if len(found) != rules || *found[0].GroupId != fmt.Sprintf("sg-%017d", 7) {
		t.Fatalf("%d rules: %+v", len(found), found)
	}
	if each := size / (groups * rules); each > 250 { // with a view of each it is some 600
		t.Errorf("to describe the rules of one of %d groups takes %d bytes, %d for each rule", groups, size, each)
	}
}

// TestAnInstanceIsDescribedByItsOwnInterfaces describes one instance, as the authenticator does for each token of a
// node: it does not list what all others of the region have.
func TestAnInstanceIsDescribedByItsOwnInterfaces(t *testing.T) { //nolint:paralleltest // as the one above
	w := ec2test.New(t)
	subnet := w.Subnet(w.VPC("10.0.0.0/16"), "10.0.0.0/24", "a")
	launched := awstest.Must[*ec2.RunInstancesOutput](t)(w.RunInstances(t.Context(), &ec2.RunInstancesInput{
		MinCount: aws.Int32(1), MaxCount: aws.Int32(1), ImageId: aws.String(image(t, "x86_64")),
		InstanceType: types.InstanceTypeM5Large, SubnetId: &subnet}))
	id := *launched.Instances[0].InstanceId
	const others = 5000
	table := record.NetworkInterfaces(w.Store)
	putAll(t, w.Store, others, func(i int) store.Op {
		r := record.NetworkInterface{EC2Resource: record.EC2Resource{Account: ec2test.Account, Region: ec2test.Region,
			ID: fmt.Sprintf("eni-%017d", i)}}
		return table.PutOp(r.Key(), r)
	})
	size := allocated(func() {
		out := awstest.Must[*ec2.DescribeInstancesOutput](t)(w.DescribeInstances(t.Context(),
			&ec2.DescribeInstancesInput{InstanceIds: []string{id}}))
		if one := out.Reservations[0].Instances[0]; len(one.NetworkInterfaces) != 1 || *one.SubnetId != subnet {
			t.Errorf("described as %+v", one)
		}
	})
	if each := size / others; each > 200 { // a list of them takes some 800
		t.Errorf("to describe an instance among %d interfaces of others takes %d bytes", others, size)
	}
}
